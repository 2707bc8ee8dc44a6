/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/schema-core.h"
#include "libcommon/error.h"

#define ARRAY_PREFIX_MAX  1000 /* elements with a schema of their own */
#define ARRAY_COUNTED_MAX 64   /* elements beside contains and maxItems */
#define ARRAY_UNIQUE_MAX  10   /* different values beside uniqueItems */

static expr_t seq2(struct schema *c, expr_t x, expr_t y)
{
    return expr_seq(c->b, (expr_t[]){x, y}, 2);
}

static expr_t alt2(struct schema *c, expr_t x, expr_t y)
{
    return expr_alt(c->b, (expr_t[]){x, y}, 2);
}

/* Elements that some row has a schema for by number. */
static uint32_t prefix_of(const struct shape *s)
{
    uint32_t n = 0;
    for (const struct row *r = s->rows; r; r = r->next) {
        uint32_t own = r->is_single ? r->index + 1 : r->prefix ? r->prefix->count : 0;
        if (own > n) n = own;
    }
    return n;
}

static expr_t brackets(struct schema *c, expr_t elements)
{
    return c->err ? EXPR_ERROR : expr_seq(c->b, (expr_t[]){c->open_array, elements, c->close_array}, 3);
}

/* Between @min and @max elements @rest, with a comma before the first unless @first. */
static expr_t repeated(struct schema *c, expr_t rest, uint32_t min, uint32_t max, bool first)
{
    expr_t more = seq2(c, c->comma, rest);
    if (!first) return expr_repeat(c->b, more, min, max);
    if (max == 0 || rest == expr_none(c->b)) return min == 0 ? expr_empty(c->b) : expr_none(c->b);
    uint32_t least = min > 0 ? min - 1 : 0, most = max == EXPR_UNLIMITED ? max : max - 1;
    expr_t out = seq2(c, rest, expr_repeat(c->b, more, least, most));
    return min == 0 ? alt2(c, expr_empty(c->b), out) : out;
}

static expr_t plain_array(struct schema *c, const struct shape *s, uint32_t prefix)
{
    uint32_t min = s->min_items, max = s->max_items;
    if (prefix > max) prefix = max;
    expr_t rest = max > prefix ? schema_compile(c, row_demands(c, s, UINT32_MAX)) : expr_none(c->b);
    if (rest == expr_none(c->b) && max > prefix) max = prefix;
    expr_t *element = schema_alloc(c, (prefix + 1) * sizeof(*element));
    for (uint32_t i = 0; i < prefix && !c->err; i++) {
        element[i] = schema_compile(c, row_demands(c, s, i));
        if (element[i] == expr_none(c->b)) prefix = max = i;
    }
    if (c->err || min > max) return c->err ? EXPR_ERROR : expr_none(c->b);
    uint32_t behind = max == EXPR_UNLIMITED ? max : max - prefix;
    expr_t out = repeated(c, rest, min > prefix ? min - prefix : 0, behind, prefix == 0);
    for (uint32_t i = prefix; i > 0; i--) {
        out = expr_seq(c->b, (expr_t[]){i > 1 ? c->comma : expr_empty(c->b), element[i - 1], out}, 3);
        if (i > min) out = alt2(c, expr_empty(c->b), out);
    }
    return brackets(c, out);
}

/* contains: the number of elements that satisfy it is counted. */
struct counting {
    struct schema *core;
    const struct shape *shape;
    const struct contains *k;
    expr_t *
        memo; /* [ARRAY_COUNTED_MAX + 1][ARRAY_COUNTED_MAX + 1] what follows so many elements, so many of which count */
};

static expr_t with(struct counting *k, uint32_t index, bool use, bool negated)
{
    const struct demand *d = row_demands(k->core, k->shape, index);
    struct demand more = {d, k->k->demand.schema, k->k->demand.negated != negated};
    return schema_compile(k->core, use ? &more : d);
}

/* Arrays of at most ARRAY_COUNTED_MAX elements. */
static expr_t counted(struct counting *k, uint32_t n, uint32_t found)
{
    struct schema *c = k->core;
    if (!schema_step(c)) return EXPR_ERROR;
    expr_t *memo = &k->memo[n * (ARRAY_COUNTED_MAX + 1) + found];
    if (*memo != EXPR_ERROR) return *memo;
    expr_t parts[3], comma = n ? c->comma : expr_empty(c->b);
    size_t kept = 0;
    if (n >= k->shape->min_items && found >= k->k->min && found <= k->k->max) parts[kept++] = expr_empty(c->b);
    if (n < k->shape->max_items && n < k->k->from)
        parts[kept++] = expr_seq(c->b, (expr_t[]){comma, with(k, n, false, false), counted(k, n + 1, found)}, 3);
    if (n < k->shape->max_items && n >= k->k->from) {
        parts[kept++] = expr_seq(c->b, (expr_t[]){comma, with(k, n, true, true), counted(k, n + 1, found)}, 3);
        if (found < k->k->max)
            parts[kept++] = expr_seq(c->b, (expr_t[]){comma, with(k, n, true, false), counted(k, n + 1, found + 1)}, 3);
    }
    return *memo = c->err ? EXPR_ERROR : expr_alt(c->b, parts, kept);
}

/* Any number of elements, all with the same schema. */
static expr_t uncounted(struct counting *k, uint32_t found, bool first)
{
    struct schema *c = k->core;
    if (found >= k->k->min && k->k->max == EXPR_UNLIMITED)
        return repeated(c, with(k, UINT32_MAX, false, false), 0, EXPR_UNLIMITED, first);
    expr_t yes = found < k->k->max ? with(k, UINT32_MAX, true, false) : expr_none(c->b),
           no = with(k, UINT32_MAX, true, true);
    if (c->err) return EXPR_ERROR;
    expr_t more = yes == expr_none(c->b) ? yes : seq2(c, yes, uncounted(k, found + 1, false));
    expr_t end = found >= k->k->min ? expr_empty(c->b) : expr_none(c->b);
    expr_t then = alt2(c, end, seq2(c, c->comma, more));
    expr_t nos = expr_repeat(c->b, seq2(c, c->comma, no), 0, EXPR_UNLIMITED);
    if (!first) return seq2(c, nos, then);
    expr_t parts[3] = {end, more, expr_seq(c->b, (expr_t[]){no, nos, then}, 3)};
    return expr_alt(c->b, parts, 3);
}

static expr_t containing(struct schema *c, const struct shape *s, uint32_t prefix)
{
    struct counting k = {c, s, s->contains, NULL};
    if (s->contains->min > s->contains->max) return expr_none(c->b);
    if (s->contains->next || (s->contains->max != EXPR_UNLIMITED && s->contains->max > ARRAY_COUNTED_MAX) ||
        s->contains->min > ARRAY_COUNTED_MAX)
        return schema_refuse(c, s->contains->demand.schema, "more than one contains, or one that counts over %d",
                             ARRAY_COUNTED_MAX)
                   ? plain_array(c, s, prefix)
                   : EXPR_ERROR;
    if (s->max_items <= ARRAY_COUNTED_MAX) {
        size_t n = (ARRAY_COUNTED_MAX + 1) * (ARRAY_COUNTED_MAX + 1);
        k.memo = schema_alloc(c, n * sizeof(expr_t));
        for (size_t i = 0; k.memo && i < n; i++) k.memo[i] = EXPR_ERROR;
        return k.memo ? brackets(c, counted(&k, 0, 0)) : EXPR_ERROR;
    }
    if (prefix == 0 && s->contains->from == 0 && s->max_items == EXPR_UNLIMITED && s->min_items <= s->contains->min)
        return brackets(c, uncounted(&k, 0, true));
    if (!schema_refuse(c, s->contains->demand.schema, "contains beside schemas or limits for the elements"))
        return EXPR_ERROR;
    return plain_array(c, s, prefix);
}

/* The different values that elements may have, if they are few. */
static uint32_t few_values(struct schema *c, const struct shape *s, const struct tree **values)
{
    struct shapes all;
    uint32_t n = 0;
    if (!schema_shapes(c, row_demands(c, s, UINT32_MAX), &all)) return UINT32_MAX;
    for (size_t i = 0; i < all.n && !c->err; i++) {
        const struct value_set *a = all.at[i].allowed;
        uint32_t count = !a ? 0 : a->single ? 1 : a->values->count;
        if (!a) return UINT32_MAX;
        for (uint32_t k = 0; k < count; k++) {
            const struct tree *v = a->single ? a->values : a->values->child[k];
            uint32_t same = 0;
            while (same < n && !values_equal(values[same], v)) same++;
            if (same < n || !shape_admits(c, &all.at[i], v)) continue;
            if (n == ARRAY_UNIQUE_MAX) return UINT32_MAX;
            values[n++] = v;
        }
    }
    return n;
}

static expr_t unique_after(struct schema *c, const struct shape *s, const expr_t *value, uint32_t n, uint32_t set,
                           expr_t *memo)
{
    if (memo[set] != EXPR_ERROR || !schema_step(c)) return memo[set];
    expr_t parts[ARRAY_UNIQUE_MAX + 1], comma = set ? c->comma : expr_empty(c->b);
    uint32_t used = (uint32_t)__builtin_popcount(set);
    size_t kept = 0;
    if (used >= s->min_items) parts[kept++] = expr_empty(c->b);
    for (uint32_t i = 0; i < n && used < s->max_items; i++)
        if (!(set >> i & 1))
            parts[kept++] =
                expr_seq(c->b, (expr_t[]){comma, value[i], unique_after(c, s, value, n, set | 1u << i, memo)}, 3);
    return memo[set] = expr_alt(c->b, parts, kept);
}

static expr_t unique(struct schema *c, const struct shape *s, uint32_t prefix)
{
    const struct tree *values[ARRAY_UNIQUE_MAX];
    expr_t value[ARRAY_UNIQUE_MAX], *memo = schema_alloc(c, sizeof(expr_t) << ARRAY_UNIQUE_MAX);
    uint32_t n = s->max_items <= 1 || !memo || prefix || s->contains ? UINT32_MAX : few_values(c, s, values);
    if (c->err) return EXPR_ERROR;
    if (s->max_items > 1 && n == UINT32_MAX &&
        !schema_refuse(c, s->unique, "only for elements with at most %d different values", ARRAY_UNIQUE_MAX))
        return EXPR_ERROR;
    if (n == UINT32_MAX) return s->contains ? containing(c, s, prefix) : plain_array(c, s, prefix);
    for (uint32_t i = 0; i < n; i++) value[i] = compile_value(c, values[i], false);
    for (uint32_t i = 0; i < 1u << n; i++) memo[i] = EXPR_ERROR;
    return brackets(c, unique_after(c, s, value, n, 0, memo));
}

expr_t compile_array(struct schema *c, const struct shape *s)
{
    uint32_t prefix = prefix_of(s);
    if (prefix > ARRAY_PREFIX_MAX && s->max_items > ARRAY_PREFIX_MAX) {
        schema_fail(c, error_say(-E2BIG, "an array with more than %d schemas for single elements", ARRAY_PREFIX_MAX));
        return EXPR_ERROR;
    }
    if (s->unique) return unique(c, s, prefix);
    return s->contains ? containing(c, s, prefix) : plain_array(c, s, prefix);
}

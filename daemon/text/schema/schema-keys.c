/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/schema-core.h"
#include "libcommon/error.h"
#include <string.h>

/* The properties that are asked about: those with one name, or those that no schema of the shape names and that match
 * exactly the patterns of @kind. */
struct asked {
    const char *name; /* NULL: @kind */
    uint32_t len;
    const struct key_kind *kind;
};

static bool matches(struct schema *c, const struct asked *q, const struct tree *pattern)
{
    expr_t e = schema_pattern(c, pattern->key, pattern->key_len, pattern);
    if (e == EXPR_ERROR) return false;
    if (q->name) return text_matches(c, e, q->name, q->len);
    for (unsigned i = 0; i < q->kind->n; i++)
        if (q->kind->matched[i] == e) return true;
    return false;
}

/* Whether the group says something about the properties; adds that to *d. */
static bool group_covers(struct schema *c, const struct group *g, const struct asked *q, const struct demand **d)
{
    bool found = false;
    if (g->name) {
        found = q->name && q->len == g->name_len && memcmp(q->name, g->name, q->len) == 0;
        if (found && d) *d = demand_add(c, *d, g->demand.schema, g->demand.negated);
        return found;
    }
    const struct tree *p = q->name ? tree_member(g->properties, q->name, q->len) : NULL;
    if (p) found = true;
    if (p && d) *d = demand_add(c, *d, p, false);
    for (uint32_t i = 0; g->patterns && i < g->patterns->count && !c->err; i++) {
        if (!matches(c, q, g->patterns->child[i])) continue;
        found = true;
        if (d) *d = demand_add(c, *d, g->patterns->child[i], false);
    }
    if (found || !g->others) return found;
    for (const struct group *b = g->beyond; g->has_beyond && b != g->beyond_end; b = b->next)
        if (!b->silent && group_covers(c, b, q, NULL)) return true;
    if (d) *d = demand_add(c, *d, g->others, false);
    return true;
}

static const struct demand *demands(struct schema *c, const struct shape *s, const struct asked *q)
{
    const struct demand *d = NULL;
    for (const struct group *g = s->groups; g && !c->err; g = g->next) group_covers(c, g, q, &d);
    return d;
}

const struct demand *key_demands(struct schema *c, const struct shape *s, const char *name, uint32_t len)
{
    return demands(c, s, &(struct asked){.name = name, .len = len});
}

bool witness_names(struct schema *c, const struct witness *t, const char *name, uint32_t len)
{
    if (!t->outside) return text_matches(c, t->name, name, len);
    const struct words *w = schema_words(c, t->outside);
    if (!w) return false;
    struct group g = {.properties = w->at[WORD_PROPERTIES], .patterns = w->at[WORD_PATTERN_PROPERTIES]};
    return !group_covers(c, &g, &(struct asked){.name = name, .len = len}, NULL);
}

static bool is_never(const struct demand *d)
{
    for (; d; d = d->next)
        if (d->schema->kind == (d->negated ? TREE_TRUE : TREE_FALSE)) return true;
    return false;
}

/* Splits every kind into those that match @pattern and those that do not. */
static struct key_kind *split(struct schema *c, struct key_kind *list, expr_t pattern)
{
    struct key_kind *out = NULL;
    for (struct key_kind *k = list, *next; k && !c->err; k = next) {
        next = k->next;
        expr_t in = expr_and(c->b, k->name, pattern);
        if (expr_is_none(c->b, in, 500) != 1) {
            struct key_kind *more = schema_alloc(c, sizeof(*more));
            if (!more) return NULL;
            *more = *k;
            if (more->n == KEY_PATTERNS_MAX) {
                schema_fail(
                    c, error_say(-E2BIG, "an object with more than %d patterns for one property", KEY_PATTERNS_MAX));
                return NULL;
            }
            more->matched[more->n++] = pattern;
            more->name = in;
            more->next = out;
            out = more;
        }
        k->name = expr_and(c->b, k->name, expr_not(c->b, pattern));
        if (expr_is_none(c->b, k->name, 500) == 1) continue;
        k->next = out;
        out = k;
    }
    return out;
}

static struct key_kind *split_by_patterns(struct schema *c, const struct shape *s, struct key_kind *all)
{
    expr_t seen[64];
    unsigned n = 0;
    for (const struct group *g = s->groups; g; g = g->next)
        for (uint32_t i = 0; g->patterns && i < g->patterns->count && !c->err; i++) {
            expr_t e =
                schema_pattern(c, g->patterns->child[i]->key, g->patterns->child[i]->key_len, g->patterns->child[i]);
            unsigned k = 0;
            while (k < n && seen[k] != e) k++;
            if (e == EXPR_ERROR || k < n) continue;
            if (n == 64) {
                schema_fail(c, error_say(-E2BIG, "an object with more than 64 patterns for its properties"));
                return NULL;
            }
            seen[n++] = e;
            all = split(c, all, e);
        }
    return all;
}

/* @taken: the written forms of the names that the shape's schemas name. */
struct key_kind *key_kinds(struct schema *c, const struct shape *s, expr_t taken, expr_t names)
{
    struct key_kind *all = schema_alloc(c, sizeof(*all)), *out = NULL;
    if (!all) return NULL;
    bool has_patterns = false;
    for (const struct group *g = s->groups; g; g = g->next) has_patterns = has_patterns || g->patterns;
    if (!has_patterns) {
        all->demands = demands(c, s, &(struct asked){.kind = all});
        if (c->err || is_never(all->demands)) return NULL;
    }
    all->name = taken == expr_none(c->b) ? names : expr_and(c->b, names, expr_not(c->b, taken));
    if (!has_patterns) return all;
    all = split_by_patterns(c, s, all);
    for (struct key_kind *k = all, *next; k && !c->err; k = next) {
        next = k->next;
        k->demands = demands(c, s, &(struct asked){.kind = k});
        if (is_never(k->demands)) continue;
        k->next = out;
        out = k;
    }
    return out;
}

/* What the rows of a shape say about element @index (UINT32_MAX: about all behind the last that any row names). */
static bool row_covers(struct schema *c, const struct row *r, uint32_t index, const struct demand **d)
{
    if (r->is_single) {
        if (index == r->index && d) *d = demand_add(c, *d, r->demand.schema, r->demand.negated);
        return index == r->index;
    }
    if (r->prefix && index < r->prefix->count) {
        if (d) *d = demand_add(c, *d, r->prefix->child[index], false);
        return true;
    }
    if (!r->rest) return false;
    for (const struct row *b = r->beyond; r->has_beyond && b != r->beyond_end; b = b->next)
        if (!b->silent && row_covers(c, b, index, NULL)) return true;
    if (d) *d = demand_add(c, *d, r->rest, false);
    return true;
}

const struct demand *row_demands(struct schema *c, const struct shape *s, uint32_t index)
{
    const struct demand *d = NULL;
    for (const struct row *r = s->rows; r && !c->err; r = r->next) row_covers(c, r, index, &d);
    return d;
}

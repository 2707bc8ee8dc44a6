/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/object-build.h"
#include <stdlib.h>

/* The members that are told apart are written at most once; the state is the set of those that have been written. */
struct sets {
    struct object *o;
    struct schema *core;
    const struct member **told; /* [n] */
    size_t n;
    bool sequential;     /* too many for sets: they come in their order, and the state is how many have come */
    expr_t free;         /* a member that changes no state */
    uint32_t others_cap; /* with counting: the others count too */
    expr_t *memo;        /* [states][others_cap + 1] */
};

static expr_t seq2(struct schema *c, expr_t x, expr_t y)
{
    return expr_seq(c->b, (expr_t[]){x, y}, 2);
}

static bool is_written(const struct sets *s, unsigned state, size_t i)
{
    return s->sequential ? i < state : state >> i & 1;
}

static bool is_complete(const struct sets *s, unsigned state, uint32_t others, bool first)
{
    uint32_t count = others;
    for (size_t i = 0; i < s->n; i++) {
        if (s->told[i]->required && !is_written(s, state, i)) return false;
        count += is_written(s, state, i);
    }
    return count >= s->o->min && count <= s->o->max && !(first && s->o->not_empty);
}

static expr_t after(struct sets *s, unsigned state, uint32_t others);

static expr_t choose(struct sets *s, unsigned state, uint32_t others, bool first)
{
    struct schema *c = s->core;
    expr_t parts[OBJECT_NEEDS_MAX + 2];
    expr_t comma = first ? expr_empty(c->b) : c->comma;
    size_t n = 0;
    if (is_complete(s, state, others, first)) parts[n++] = expr_empty(c->b);
    for (size_t i = 0; i < s->n; i++) {
        if (s->sequential ? i != state : is_written(s, state, i)) continue;
        expr_t rest = after(s, s->sequential ? state + 1 : state | 1u << i, others);
        parts[n++] = expr_seq(c->b, (expr_t[]){comma, s->told[i]->text, rest}, 3);
    }
    bool counts = s->others_cap > 0;
    if (s->free != expr_none(c->b) && (counts ? others < s->others_cap : first))
        parts[n++] = expr_seq(c->b, (expr_t[]){comma, s->free, after(s, state, counts ? others + 1 : 0)}, 3);
    return c->err ? EXPR_ERROR : expr_alt(c->b, parts, n);
}

static expr_t after(struct sets *s, unsigned state, uint32_t others)
{
    struct schema *c = s->core;
    if (!schema_step(c)) return EXPR_ERROR;
    expr_t *memo = &s->memo[(size_t)state * (s->others_cap + 1) + others];
    if (*memo != EXPR_ERROR) return *memo;
    expr_t out = choose(s, state, others, false);
    if (s->others_cap == 0 && s->free != expr_none(c->b) && out != EXPR_ERROR)
        out = seq2(c, expr_repeat(c->b, seq2(c, c->comma, s->free), 0, EXPR_UNLIMITED), out);
    return *memo = c->err ? EXPR_ERROR : out;
}

static int by_rank(const void *x, const void *y)
{
    const struct member *a = *(const struct member *const *)x, *b = *(const struct member *const *)y;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static expr_t make(struct sets *s)
{
    size_t states = (s->sequential ? s->n + 1 : (size_t)1 << s->n) * (s->others_cap + 1);
    s->memo = schema_alloc(s->core, states * sizeof(expr_t));
    if (!s->memo) return EXPR_ERROR;
    for (size_t i = 0; i < states; i++) s->memo[i] = EXPR_ERROR;
    return choose(s, 0, 0, true);
}

expr_t object_any_order(struct object *o)
{
    struct schema *c = o->core;
    struct sets s = {.o = o, .core = c};
    bool counted = o->cap > 0, exact = o->n <= OBJECT_EXACT_MAX;
    if (counted && (!exact || o->cap > 1000)) return object_in_order(o);
    s.told = schema_alloc(c, (o->n + 1) * sizeof(*s.told));
    expr_t *free = schema_alloc(c, (o->n + 1) * sizeof(*free));
    if (!s.told || !free) return EXPR_ERROR;
    size_t n_free = 0;
    free[n_free++] = o->others;
    for (size_t i = 0; i < o->n; i++) {
        if (exact || o->members[i].required)
            s.told[s.n++] = &o->members[i];
        else
            free[n_free++] = o->members[i].text;
    }
    s.free = expr_alt(c->b, free, n_free);
    s.sequential = !exact && s.n > OBJECT_NEEDS_MAX;
    s.others_cap = counted && o->others != expr_none(c->b) ? o->cap : 0;
    expr_t out = make(&s);
    if (!s.sequential || c->err) return out;
    qsort(s.told, s.n, sizeof(*s.told), by_rank);
    return expr_alt(c->b, (expr_t[]){out, make(&s)}, 2);
}

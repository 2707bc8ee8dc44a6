/* SPDX-License-Identifier: MIT */
/* Searches of the derivatives of an expression: is it empty, how long is its shortest string. */
#include "daemon/text/grammar/regex.h"
#include <stdlib.h>

/* The expressions found so far, each with the one it was found from. */
struct search {
    struct found {
        expr_t e;
        uint32_t from; /* index; UINT32_MAX: the first */
        uint32_t steps;
    } * found;
    uint32_t *table; /* open addressing, index plus 1 */
    size_t n, cap, mask;
};

static size_t slot_of(const struct search *v, expr_t e)
{
    size_t at = e * 0x9e3779b1u & v->mask;
    while (v->table[at] && v->found[v->table[at] - 1].e != e) at = (at + 1) & v->mask;
    return at;
}

static bool widen(struct search *v)
{
    size_t cap = v->cap ? v->cap * 2 : 64;
    struct found *f = reallocarray(v->found, cap, sizeof(*f));
    if (f) v->found = f;
    uint32_t *t = calloc(cap * 2, sizeof(*t));
    if (!f || !t) {
        free(t);
        return false;
    }
    free(v->table);
    v->table = t;
    v->mask = cap * 2 - 1;
    v->cap = cap;
    for (size_t i = 0; i < v->n; i++) v->table[slot_of(v, v->found[i].e)] = (uint32_t)i + 1;
    return true;
}

static bool found(struct regex_store *s, struct search *v, expr_t e, uint32_t from)
{
    if (v->n == v->cap && !widen(v)) return regex_fail(s, -ENOMEM) != EXPR_ERROR;
    size_t at = slot_of(v, e);
    if (v->table[at]) return true;
    v->found[v->n] = (struct found){e, from, from == UINT32_MAX ? 0 : v->found[from].steps + 1};
    v->table[at] = (uint32_t)++v->n;
    return true;
}

static void search_fini(struct search *v)
{
    free(v->found);
    free(v->table);
}

static bool expand(struct regex_store *s, struct search *v, uint32_t i)
{
    expr_t e = v->found[i].e;
    if (!regex_derive(s, e)) return false;
    for (uint32_t k = 0; k < regex_node(s, e)->n_edges; k++)
        if (!found(s, v, s->edges[regex_node(s, e)->edges - 1 + k].to, i)) return false;
    return true;
}

/* What the flags of the parts tell: 1 empty, 0 not empty, -EAGAIN unknown. */
static int none_by_flags(struct regex_store *s, expr_t e)
{
    const struct regex_node *x = regex_node(s, e);
    if (x->flags & REGEX_DEAD) return 1;
    if (x->flags & (REGEX_ALIVE | REGEX_NULLABLE)) return 0;
    bool unknown = false, alive = true;
    for (; x->kind == REGEX_CAT; x = regex_node(s, x->b)) {
        uint8_t flags = regex_node(s, x->a)->flags;
        if (flags & REGEX_DEAD) return 1;
        alive = alive && (flags & REGEX_ALIVE);
    }
    if (x->flags & REGEX_DEAD) return 1;
    if (alive && x->flags & REGEX_ALIVE) return 0;
    if (x->kind != REGEX_ALT || !alive) return -EAGAIN;
    for (uint32_t i = 0; i < x->b; i++) {
        uint8_t flags = regex_node(s, s->kids[x->a + i])->flags;
        if (flags & REGEX_ALIVE) return 0;
        unknown = unknown || !(flags & REGEX_DEAD);
    }
    return unknown ? -EAGAIN : 1;
}

static int remember(struct regex_store *s, const struct search *v, uint32_t alive)
{
    if (alive == UINT32_MAX)
        for (size_t i = 0; i < v->n; i++) s->nodes[v->found[i].e].flags |= REGEX_DEAD;
    for (uint32_t i = alive; i != UINT32_MAX; i = v->found[i].from) s->nodes[v->found[i].e].flags |= REGEX_ALIVE;
    return alive == UINT32_MAX;
}

/* Depth first: a string is usually found on the first way down. */
static int search_alive(struct regex_store *s, struct search *v, uint32_t *stack, size_t states)
{
    size_t n = 1, expanded = 0;
    stack[0] = 0;
    while (n) {
        uint32_t i = stack[--n];
        size_t before = v->n;
        if (expanded++ == states) return -E2BIG;
        if (!expand(s, v, i)) return s->status;
        if (v->n > states * 2 + 256) return -E2BIG;
        for (size_t k = before; k < v->n; k++) {
            int none = none_by_flags(s, v->found[k].e);
            if (none == 0) return remember(s, v, (uint32_t)k);
            if (none < 0) stack[n++] = (uint32_t)k;
        }
    }
    return remember(s, v, UINT32_MAX);
}

int regex_is_none(struct regex_store *s, expr_t e, size_t states)
{
    if (s->status) return s->status;
    int r = none_by_flags(s, e);
    if (r >= 0) return r;
    struct search v = {0};
    if (states > UINT32_MAX / 4) states = UINT32_MAX / 4;
    uint32_t *stack = malloc((states * 2 + 512) * sizeof(*stack));
    if (!stack) {
        regex_fail(s, -ENOMEM);
        return s->status;
    }
    r = found(s, &v, e, UINT32_MAX) ? search_alive(s, &v, stack, states) : s->status;
    search_fini(&v);
    free(stack);
    return r;
}

/* Breadth first: the first nullable expression is the nearest. */
static int search_shortest(struct regex_store *s, expr_t e, size_t states, uint32_t *len)
{
    struct search v = {0};
    int r = found(s, &v, e, UINT32_MAX) ? -E2BIG : s->status;
    for (uint32_t i = 0; r == -E2BIG && i < v.n && i < states; i++) {
        if (regex_has(s, v.found[i].e, REGEX_NULLABLE)) {
            *len = v.found[i].steps;
            for (uint32_t k = i; k != UINT32_MAX; k = v.found[k].from)
                s->nodes[v.found[k].e].min_len = *len - v.found[k].steps;
            r = 0;
        } else if (!expand(s, &v, i)) {
            r = s->status;
        }
    }
    search_fini(&v);
    return r;
}

int regex_min_len(struct regex_store *s, expr_t e, size_t states, uint32_t *len)
{
    uint64_t sum = 0;
    uint32_t one = 0;
    int r = s->status;
    for (; r == 0 && regex_node(s, e)->min_len == UINT32_MAX && regex_node(s, e)->kind == REGEX_CAT;
         e = regex_node(s, e)->b) {
        r = regex_min_len(s, regex_node(s, e)->a, states, &one);
        sum += one;
    }
    if (r < 0) return r;
    one = regex_node(s, e)->min_len;
    if (one == UINT32_MAX) r = search_shortest(s, e, states, &one);
    if (r < 0) return r;
    *len = sum + one < REGEX_LEN_MAX ? (uint32_t)(sum + one) : REGEX_LEN_MAX;
    return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * x{m,n} and x{m,} have the same strings of up to k bytes if n + 1 times x is longer than k. So have two expressions
 * that differ in such repetitions only, outside of complements; the one without limits has more strings. A text of
 * RELAX_BYTES that is alive with fewer limits is alive with all of them if it is completed by END_MAX bytes more, k in
 * all.
 */
#include "daemon/text/grammar/relax.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

#define END_MAX    16
#define NODES_MAX  256  /* of an expression that are looked at; limits in others stay */
#define DEPTH_MAX  64   /* of them */
#define STATES_MAX 1200 /* of an automaton that is looked at */
#define MISSES_MAX 1    /* automata of a grammar that do not pass; after one more no others are tried */

enum { ENDS_UNKNOWN, ENDS_SOON, ENDS_LATE };

struct relaxing {
    struct regex_store *s;
    unsigned nodes, depth;
};

static expr_t relax(struct relaxing *x, expr_t e);

static expr_t relax_list(struct relaxing *x, expr_t e)
{
    const struct regex_node n = *regex_node(x->s, e);
    expr_t *kids = malloc((n.b + 1) * sizeof(*kids));
    bool same = true;
    if (!kids) return regex_fail(x->s, -ENOMEM);
    for (uint32_t i = 0; i < n.b; i++) {
        kids[i] = relax(x, x->s->kids[n.a + i]);
        same = same && kids[i] == x->s->kids[n.a + i];
    }
    if (!same) e = n.kind == REGEX_AND ? regex_and(x->s, kids, n.b) : regex_alt(x->s, kids, n.b);
    free(kids);
    return e;
}

static expr_t relax_repeat(struct relaxing *x, expr_t e)
{
    const struct regex_node n = *regex_node(x->s, e);
    uint32_t len = regex_node(x->s, n.a)->min_len, max = n.c;
    if (len == UINT32_MAX || len == 0) len = 1;
    if (max != EXPR_UNLIMITED && ((uint64_t)max + 1) * len > RELAX_BYTES + END_MAX) max = EXPR_UNLIMITED;
    expr_t body = relax(x, n.a);
    return body == n.a && max == n.c ? e : regex_repeat(x->s, body, n.b, max);
}

static expr_t relax(struct relaxing *x, expr_t e)
{
    if (x->s->status) return EXPR_ERROR;
    if (!regex_has(x->s, e, REGEX_LIMITED) || x->nodes++ >= NODES_MAX || x->depth >= DEPTH_MAX) return e;
    const struct regex_node n = *regex_node(x->s, e);
    expr_t r = e, a, b;
    x->depth++;
    if (n.kind == REGEX_REPEAT) r = relax_repeat(x, e);
    if (n.kind == REGEX_ALT || n.kind == REGEX_AND) r = relax_list(x, e);
    if (n.kind == REGEX_CAT) {
        a = relax(x, n.a);
        b = relax(x, n.b);
        if (a != n.a || b != n.b) r = regex_cat(x->s, a, b);
    }
    x->depth--;
    return r;
}

static bool visit(struct dfa *d, uint32_t *list, uint32_t *n, uint32_t q)
{
    if (d->states[q].visit == d->visits) return true;
    if (*n == STATES_MAX) return false;
    d->states[q].visit = d->visits;
    list[(*n)++] = q;
    return true;
}

/* The states that @q leads to. Sets *n to 0 if there are too many. False: the automaton has failed. */
static bool visit_all(struct dfa *d, uint32_t q, uint32_t *list, uint32_t *n)
{
    bool fits = true;
    *n = 0;
    if (++d->visits == 0) {
        for (size_t i = 0; i < d->n; i++) d->states[i].visit = 0;
        d->visits = 1;
    }
    visit(d, list, n, q);
    for (uint32_t i = 0; i < *n && fits; i++) {
        if (!regex_work(&d->store, 16) || (!d->states[list[i]].edges && !dfa_expand(d, list[i]))) return false;
        const struct dfa_edges *e = d->states[list[i]].edges;
        for (uint32_t c = 1; c < e->n && fits; c++) fits = visit(d, list, n, e->to[c]);
    }
    if (!fits) *n = 0;
    return true;
}

static bool leads_to_end(const struct dfa *d, uint32_t q)
{
    const struct dfa_edges *e = d->states[q].edges;
    for (uint32_t c = 1; c < e->n; c++)
        if (d->states[e->to[c]].visit == 0) return true;
    return false;
}

/* Whether each state of a list, which is closed, has a string of at most END_MAX bytes. Those that are found to have
 * one get 0 as visit, shorter strings first. @left is scratch. */
static bool end_soon(const struct dfa *d, const uint32_t *list, uint32_t n, uint32_t *left)
{
    uint32_t n_left = 0;
    for (uint32_t i = 0; i < n; i++)
        if (d->states[list[i]].nullable)
            d->states[list[i]].visit = 0;
        else
            left[n_left++] = list[i];
    for (unsigned len = 0; len < END_MAX && n_left; len++) {
        uint32_t kept = 0, all = n_left;
        for (uint32_t i = 0; i < all; i++) {
            uint32_t q = left[i];
            if (leads_to_end(d, q)) continue;
            left[i] = left[kept];
            left[kept++] = q;
        }
        for (uint32_t i = kept; i < all; i++) d->states[left[i]].visit = 0;
        n_left = kept;
    }
    return n_left == 0;
}

/* Finds out if all states that @q leads to have short strings. False: the automaton has failed. */
static bool find_ends(struct dfa *d, uint32_t q)
{
    uint32_t n, *list = malloc(2 * STATES_MAX * sizeof(*list));
    if (!list) return regex_fail(&d->store, -ENOMEM) != EXPR_ERROR;
    bool ok = visit_all(d, q, list, &n);
    d->states[q].ends_soon = ENDS_LATE;
    if (ok && n && end_soon(d, list, n, list + STATES_MAX))
        for (uint32_t i = 0; i < n; i++) d->states[list[i]].ends_soon = ENDS_SOON;
    d->relax_misses += d->states[q].ends_soon == ENDS_LATE;
    free(list);
    return ok;
}

static int find_relaxed(struct dfa *d, uint32_t q, uint32_t *out)
{
    struct relaxing x = {.s = &d->store};
    expr_t e = relax(&x, d->states[q].node);
    if (e == d->states[q].node) return 0;
    *out = dfa_state_of(d, e);
    if (*out == UINT32_MAX) return dfa_status(d);
    if (!d->states[*out].ends_soon && !find_ends(d, *out)) return dfa_status(d);
    return d->states[*out].ends_soon == ENDS_SOON;
}

int relax_state(struct dfa *d, uint32_t q, uint32_t *out)
{
    if (d->relax_misses > MISSES_MAX) return 0;
    if (d->store.status) return dfa_status(d);
    const uint64_t max = regex_begin_search(&d->store);
    int r = find_relaxed(d, q, out);
    if (regex_end_search(&d->store, max)) return r;
    d->relax_misses++;
    return 0;
}

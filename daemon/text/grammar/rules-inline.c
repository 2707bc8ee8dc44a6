/* SPDX-License-Identifier: MIT */
/*
 * Rules inside repetitions that do not contain themselves become part of the expression: `char*` with a rule char is
 * one automaton then, and its masks are as cheap as those of a character class. Other rules stay nonterminals, so that
 * a number or a word is one terminal wherever it is used.
 */
#include "daemon/text/grammar/rules.h"
#include <stdlib.h>

#define DEPTH_MAX 400

#define UNKNOWN 0
#define NEVER   EXPR_ERROR
#define BUSY    (EXPR_ERROR - 1)

struct inliner {
    struct grammar_builder *b;
    uint32_t *regular; /* [n] the expression without rules, plus 1; UNKNOWN, NEVER or BUSY */
    uint32_t *changed; /* [n] the expression with its repetitions inlined, plus 1 */
    size_t n;
    unsigned depth;
};

static expr_t regular(struct inliner *v, expr_t e);
static expr_t rewrite(struct inliner *v, expr_t e);

/* The same node of other children, which @change makes. NEVER: it makes none. */
static expr_t map(struct inliner *v, expr_t e, expr_t (*change)(struct inliner *v, expr_t e))
{
    struct regex_store *s = &v->b->store;
    size_t n = 1, k = 0;
    const struct regex_node x = *regex_node(s, e);
    for (expr_t c = e; regex_node(s, c)->kind == REGEX_CAT; c = regex_node(s, c)->b) n++;
    if (x.kind == REGEX_ALT) n = x.b;
    expr_t *parts = calloc(n, sizeof(*parts)), all = REGEX_ID_EMPTY;
    if (!parts) return regex_fail(s, -ENOMEM);
    if (x.kind == REGEX_ALT)
        for (; k < n; k++) parts[k] = s->kids[x.a + k];
    for (expr_t c = e; x.kind == REGEX_CAT && k < n; k++) {
        parts[k] = k + 1 < n ? regex_node(s, c)->a : c;
        if (k + 1 < n) c = regex_node(s, c)->b;
    }
    if (x.kind == REGEX_REPEAT) parts[0] = x.a;
    for (size_t i = 0; i < n && all != NEVER; i++) {
        parts[i] = change(v, parts[i]);
        if (parts[i] == NEVER) all = NEVER;
    }
    if (all != NEVER && x.kind == REGEX_ALT) all = regex_alt(s, parts, n);
    if (all != NEVER && x.kind == REGEX_REPEAT) all = regex_repeat(s, parts[0], x.b, x.c);
    for (size_t i = n; x.kind == REGEX_CAT && i-- > 0 && all != NEVER;) all = regex_cat(s, parts[i], all);
    free(parts);
    return all;
}

/* The expression with the bodies of its rules; NEVER: a rule contains itself, or a token is inside. */
static expr_t regular(struct inliner *v, expr_t e)
{
    struct regex_store *s = &v->b->store;
    const struct regex_node x = *regex_node(s, e);
    if (x.flags & REGEX_REGULAR) return e;
    if (x.kind == REGEX_TOKENS || e >= v->n || v->depth > DEPTH_MAX) return NEVER;
    if (v->regular[e] == BUSY || v->regular[e] == NEVER) return NEVER;
    if (v->regular[e] != UNKNOWN) return v->regular[e] - 1;
    v->regular[e] = BUSY;
    v->depth++;
    expr_t r = x.kind == REGEX_RULE ? regular(v, v->b->bodies[x.a]) : map(v, e, regular);
    v->depth--;
    v->regular[e] = r == NEVER ? NEVER : r + 1;
    return r;
}

static expr_t rewrite(struct inliner *v, expr_t e)
{
    struct regex_store *s = &v->b->store;
    const struct regex_node x = *regex_node(s, e);
    if (x.flags & REGEX_REGULAR || x.kind == REGEX_RULE || x.kind == REGEX_TOKENS || e >= v->n) return e;
    if (v->depth > DEPTH_MAX) return e;
    if (v->changed[e] != UNKNOWN) return v->changed[e] - 1;
    v->depth++;
    expr_t r = x.kind == REGEX_REPEAT ? regular(v, x.a) : NEVER;
    if (r != NEVER)
        r = regex_repeat(s, r, x.b, x.c);
    else if (!s->status)
        r = map(v, e, rewrite);
    v->depth--;
    if (r != EXPR_ERROR) v->changed[e] = r + 1;
    return r;
}

bool rules_inline(struct grammar_builder *b, expr_t *root)
{
    struct inliner v = {.b = b, .n = b->store.n};
    v.regular = calloc(v.n, sizeof(*v.regular));
    v.changed = calloc(v.n, sizeof(*v.changed));
    if (!v.regular || !v.changed) regex_fail(&b->store, -ENOMEM);
    for (size_t i = 0; i < b->n_rules && !b->store.status; i++) b->bodies[i] = rewrite(&v, b->bodies[i]);
    if (!b->store.status) *root = rewrite(&v, *root);
    free(v.regular);
    free(v.changed);
    return !b->store.status;
}

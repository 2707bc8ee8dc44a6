/* SPDX-License-Identifier: MIT */
#include "tests/text/grammar/naive-expr.h"
#include "tests/libcommon/check.h"
#include <errno.h>
#include <stdlib.h>

struct matcher {
    const char *s;
    unsigned n;
    unsigned rules[NAIVE_RULES][NAIVE_LEN + 1]; /* the ends of each rule from each position, so far */
};

/* The ends as a bit mask. */
static unsigned ends(const struct matcher *m, const struct naive *e, unsigned from);

static unsigned ends_of_each(const struct matcher *m, const struct naive *e, unsigned starts)
{
    unsigned all = 0;
    for (unsigned i = 0; i <= m->n; i++)
        if (starts >> i & 1) all |= ends(m, e, i);
    return all;
}

static unsigned ends_repeat(const struct matcher *m, const struct naive *e, unsigned from)
{
    unsigned at = 1u << from, all = e->min == 0 ? at : 0;
    for (unsigned k = 1; k <= e->max && k <= e->min + m->n + 1; k++) {
        at = ends_of_each(m, e->x, at);
        if (k >= e->min) all |= at;
    }
    return all;
}

static unsigned ends(const struct matcher *m, const struct naive *e, unsigned from)
{
    switch (e->kind) {
    case NAIVE_SET:
        if (from == m->n || m->s[from] < 'a' || m->s[from] > 'd') return 0;
        return e->set >> (m->s[from] - 'a') & 1 ? 2u << from : 0;
    case NAIVE_EMPTY:
        return 1u << from;
    case NAIVE_NONE:
        return 0;
    case NAIVE_SEQ:
        return ends_of_each(m, e->y, ends(m, e->x, from));
    case NAIVE_ALT:
        return ends(m, e->x, from) | ends(m, e->y, from);
    case NAIVE_AND:
        return ends(m, e->x, from) & ends(m, e->y, from);
    case NAIVE_NOT:
        return ~ends(m, e->x, from) & ((1u << (m->n + 1)) - 1) & ~((1u << from) - 1);
    case NAIVE_REPEAT:
        return ends_repeat(m, e, from);
    case NAIVE_RULE:
        return m->rules[e->set][from];
    }
    return 0;
}

bool naive_matches(const struct naive *e, struct naive *const *bodies, unsigned n_bodies, const char *s, unsigned n)
{
    struct matcher m = {.s = s, .n = n};
    for (bool changed = true; changed;) {
        changed = false;
        for (unsigned k = 0; k < n_bodies; k++)
            for (unsigned i = 0; i <= n; i++) {
                unsigned more = ends(&m, bodies[k], i);
                changed |= more != m.rules[k][i];
                m.rules[k][i] = more;
            }
    }
    return ends(&m, e, 0) >> n & 1;
}

struct naive *naive_free(struct naive *e)
{
    if (!e) return NULL;
    naive_free(e->x);
    naive_free(e->y);
    free(e);
    return NULL;
}

static expr_t leaf(struct grammar_builder *b, uint64_t *random, const expr_t *rules, unsigned n, struct naive *e)
{
    unsigned kind = next_random(random) % 24;
    uint64_t set[4] = {0};
    e->set = 1 + next_random(random) % 15;
    set[1] = (uint64_t)e->set << ('a' - 64);
    if (n && kind < 10) {
        e->kind = NAIVE_RULE;
        e->set = next_random(random) % n;
        return rules[e->set];
    }
    e->kind = kind == 23 ? NAIVE_NONE : kind == 22 ? NAIVE_EMPTY : NAIVE_SET;
    return e->kind == NAIVE_SET ? expr_byte_set(b, set) : e->kind == NAIVE_EMPTY ? expr_empty(b) : expr_none(b);
}

struct naive *naive_make(struct grammar_builder *b, uint64_t *random, int depth, const expr_t *rules, unsigned n,
                         expr_t *out)
{
    struct naive *e = calloc(1, sizeof(*e));
    expr_t pair[2] = {0};
    assert_non_null(e);
    unsigned kind = next_random(random) % 16;
    if (depth == 0 || kind < 3) {
        *out = leaf(b, random, rules, n, e);
        return e;
    }
    e->kind = kind < 7    ? NAIVE_SEQ
              : kind < 10 ? NAIVE_ALT
              : kind < 12 ? NAIVE_AND
              : kind < 13 ? NAIVE_NOT
                          : NAIVE_REPEAT;
    if (e->kind == NAIVE_AND || e->kind == NAIVE_NOT) n = 0; /* of regular expressions only */
    e->x = naive_make(b, random, depth - 1, rules, n, &pair[0]);
    if (e->kind == NAIVE_SEQ || e->kind == NAIVE_ALT || e->kind == NAIVE_AND)
        e->y = naive_make(b, random, depth - 1, rules, n, &pair[1]);
    e->min = next_random(random) % 4;
    e->max = next_random(random) % 3 ? e->min + next_random(random) % 4 : EXPR_UNLIMITED;
    if (e->kind == NAIVE_SEQ) *out = expr_seq(b, pair, 2);
    if (e->kind == NAIVE_ALT) *out = expr_alt(b, pair, 2);
    if (e->kind == NAIVE_AND) *out = expr_and(b, pair[0], pair[1]);
    if (e->kind == NAIVE_NOT) *out = expr_not(b, pair[0]);
    if (e->kind == NAIVE_REPEAT) *out = expr_repeat(b, pair[0], e->min, e->max);
    assert_int_not_equal(*out, EXPR_ERROR);
    return e;
}

void naive_grammar_make(struct naive_grammar *p, uint64_t *random)
{
    struct grammar_builder *b;
    expr_t rules[NAIVE_RULES], root;
    *p = (struct naive_grammar){.n = 1 + next_random(random) % NAIVE_RULES};
    assert_int_equal(grammar_builder_new(&b), 0);
    for (unsigned i = 0; i < p->n; i++) rules[i] = expr_rule(b);
    for (unsigned i = 0; i < p->n; i++) {
        expr_t body;
        p->bodies[i] = naive_make(b, random, 1 + (int)(next_random(random) % 3), rules, p->n, &body);
        expr_define(b, rules[i], body);
    }
    p->root = naive_make(b, random, 2, rules, p->n, &root);
    int r = grammar_build(&p->g, b, root);
    if (r < 0) assert_int_equal(r, -EDOM);
    grammar_builder_free(b);
}

void naive_grammar_free(struct naive_grammar *p)
{
    grammar_unref(p->g);
    naive_free(p->root);
    for (unsigned i = 0; i < p->n; i++) naive_free(p->bodies[i]);
}

bool naive_grammar_matches(const struct naive_grammar *p, const char *s, unsigned n)
{
    return naive_matches(p->root, p->bodies, p->n, s, n);
}

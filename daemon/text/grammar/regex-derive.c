/* SPDX-License-Identifier: MIT */
/* Brzozowski derivatives, for sets of bytes that share one. */
#include "daemon/text/grammar/regex.h"
#include <stdlib.h>
#include <string.h>

/* Edges on their way to a node. */
struct edges {
    struct regex_edge *e;
    size_t n, cap;
};

static bool push(struct regex_store *s, struct edges *v, uint32_t set, expr_t to)
{
    if (set == EXPR_ERROR || to == EXPR_ERROR) return false;
    if (v->n == v->cap) {
        size_t cap = v->cap ? v->cap * 2 : 8;
        struct regex_edge *e = reallocarray(v->e, cap, sizeof(*e));
        if (!e) return regex_fail(s, -ENOMEM) != EXPR_ERROR;
        v->e = e;
        v->cap = cap;
    }
    v->e[v->n++] = (struct regex_edge){set, to};
    return true;
}

/* One edge for all sets with one target. */
static bool merge_targets(struct regex_store *s, struct edges *v)
{
    size_t kept = 0;
    for (size_t i = 0; i < v->n; i++) {
        size_t k = 0;
        while (k < kept && v->e[k].to != v->e[i].to) k++;
        if (k == kept) {
            v->e[kept++] = v->e[i];
            continue;
        }
        struct byte_set all = s->sets[v->e[k].set];
        for (int w = 0; w < 4; w++) all.w[w] |= s->sets[v->e[i].set].w[w];
        v->e[k].set = regex_set_index(s, &all);
        if (v->e[k].set == EXPR_ERROR) return false;
    }
    v->n = kept;
    return true;
}

static bool store_edges(struct regex_store *s, expr_t e, struct edges *v)
{
    bool ok = merge_targets(s, v) && regex_grow(s, &s->edges, &s->cap_edges, s->n_edges + v->n, sizeof(*s->edges));
    if (ok) {
        if (v->n) memcpy(s->edges + s->n_edges, v->e, v->n * sizeof(*v->e));
        s->nodes[e].edges = (uint32_t)s->n_edges + 1;
        s->nodes[e].n_edges = (uint32_t)v->n;
        s->n_edges += v->n;
    }
    return ok;
}

/* The bytes in classes: two bytes are in one class if they are in the same sets of all lists. */
struct partition {
    uint16_t of[256], size[257]; /* the class of each byte; the bytes of each class */
    uint32_t n;
};

static void refine(struct partition *p, const struct byte_set *set)
{
    uint16_t in[257] = {0}, to[257];
    uint32_t n = p->n;
    for (unsigned w = 0; w < 4; w++)
        for (uint64_t bits = set->w[w]; bits; bits &= bits - 1) in[p->of[w * 64 + (unsigned)__builtin_ctzll(bits)]]++;
    for (uint32_t c = 0; c < n; c++) {
        bool split = in[c] && in[c] < p->size[c];
        to[c] = (uint16_t)(split ? p->n++ : c);
        if (!split) continue;
        p->size[to[c]] = in[c];
        p->size[c] = (uint16_t)(p->size[c] - in[c]);
    }
    if (p->n == n) return;
    for (unsigned w = 0; w < 4; w++)
        for (uint64_t bits = set->w[w]; bits; bits &= bits - 1) {
            uint16_t *of = &p->of[w * 64 + (unsigned)__builtin_ctzll(bits)];
            *of = to[*of];
        }
}

/* The sequences of elements whose edges are combined. */
struct operands {
    const expr_t *e; /* [n] with derivatives */
    size_t n;
    enum regex_kind op;
    expr_t *targets; /* [n] scratch */
};

static expr_t target_at(const struct regex_store *s, expr_t e, uint8_t b)
{
    const struct regex_node *x = regex_node(s, e);
    for (uint32_t i = 0; i < x->n_edges; i++) {
        const struct regex_edge *edge = &s->edges[x->edges - 1 + i];
        if (byte_set_has(&s->sets[edge->set], b)) return edge->to;
    }
    return REGEX_ID_NONE;
}

static expr_t combined(struct regex_store *s, const struct operands *o, uint8_t b)
{
    for (size_t i = 0; i < o->n; i++) o->targets[i] = target_at(s, o->e[i], b);
    if (o->op == REGEX_NOT) return regex_not(s, o->targets[0]);
    return o->op == REGEX_AND ? regex_and(s, o->targets, o->n) : regex_alt(s, o->targets, o->n);
}

static bool combine(struct regex_store *s, const struct operands *o, struct edges *v)
{
    struct partition p = {.n = 1, .size = {256}};
    struct byte_set sets[256] = {{{0}}};
    uint8_t first[256];
    if (!regex_work(s, 64 * o->n)) return false;
    for (size_t i = 0; i < o->n && p.n < 256; i++) {
        const struct regex_node *x = regex_node(s, o->e[i]);
        for (uint32_t k = 0; k < x->n_edges; k++) refine(&p, &s->sets[s->edges[x->edges - 1 + k].set]);
    }
    for (unsigned b = 256; b-- > 0;) {
        sets[p.of[b]].w[b >> 6] |= 1ull << (b & 63);
        first[p.of[b]] = (uint8_t)b;
    }
    for (uint32_t c = 0; c < p.n; c++) {
        if (!regex_work(s, o->n)) return false;
        expr_t to = combined(s, o, first[c]);
        if (to != REGEX_ID_NONE && !push(s, v, regex_set_index(s, &sets[c]), to)) return false;
    }
    return true;
}

/* The edges of @from, each followed by @tail. */
static bool followed(struct regex_store *s, struct edges *v, expr_t from, expr_t tail)
{
    for (uint32_t i = 0; i < regex_node(s, from)->n_edges; i++) {
        struct regex_edge edge = s->edges[regex_node(s, from)->edges - 1 + i];
        if (!push(s, v, edge.set, regex_cat(s, edge.to, tail))) return false;
    }
    return true;
}

static bool derive_list(struct regex_store *s, expr_t e, struct edges *v)
{
    const struct regex_node *x = regex_node(s, e);
    size_t n = x->kind == REGEX_NOT ? 1 : x->b;
    struct operands o = {.n = n, .op = (enum regex_kind)x->kind};
    expr_t *copy = calloc(n * 2, sizeof(*copy));
    if (!copy) return regex_fail(s, -ENOMEM) != EXPR_ERROR;
    bool ok = true;
    if (x->kind == REGEX_NOT)
        copy[0] = x->a;
    else
        memcpy(copy, s->kids + x->a, n * sizeof(*copy));
    o.e = copy;
    o.targets = copy + n;
    for (size_t i = 0; i < n && ok; i++) ok = regex_derive(s, copy[i]);
    ok = ok && combine(s, &o, v);
    free(copy);
    return ok;
}

static bool derive_cat(struct regex_store *s, expr_t e, struct edges *v)
{
    expr_t a = regex_node(s, e)->a, b = regex_node(s, e)->b;
    if (!regex_derive(s, a)) return false;
    if (!regex_has(s, a, REGEX_NULLABLE)) return followed(s, v, a, b);
    if (!regex_derive(s, b)) return false;
    /* The edges of the sequence without those of @b: of a node that has no derivatives of its own. */
    if (!followed(s, v, a, b) || !merge_targets(s, v)) return false;
    struct edges own = *v;
    *v = (struct edges){0};
    bool ok = true;
    struct byte_set left;
    memset(&left, 0xff, sizeof(left));
    for (size_t i = 0; i < own.n && ok; i++) {
        const struct byte_set mine = s->sets[own.e[i].set];
        struct byte_set rest = mine;
        for (uint32_t k = 0; k < regex_node(s, b)->n_edges && ok; k++) {
            struct regex_edge other = s->edges[regex_node(s, b)->edges - 1 + k];
            struct byte_set both;
            for (int w = 0; w < 4; w++) {
                both.w[w] = mine.w[w] & s->sets[other.set].w[w];
                rest.w[w] &= ~both.w[w];
            }
            expr_t pair[] = {own.e[i].to, other.to};
            if (!byte_set_is_empty(&both)) ok = push(s, v, regex_set_index(s, &both), regex_alt(s, pair, 2));
        }
        if (ok && !byte_set_is_empty(&rest)) ok = push(s, v, regex_set_index(s, &rest), own.e[i].to);
        for (int w = 0; w < 4; w++) left.w[w] &= ~mine.w[w];
    }
    for (uint32_t k = 0; k < regex_node(s, b)->n_edges && ok; k++) {
        struct regex_edge other = s->edges[regex_node(s, b)->edges - 1 + k];
        struct byte_set rest;
        for (int w = 0; w < 4; w++) rest.w[w] = left.w[w] & s->sets[other.set].w[w];
        if (!byte_set_is_empty(&rest)) ok = push(s, v, regex_set_index(s, &rest), other.to);
    }
    free(own.e);
    return ok;
}

static bool derive_repeat(struct regex_store *s, expr_t e, struct edges *v)
{
    struct regex_node x = *regex_node(s, e);
    if (!regex_derive(s, x.a)) return false;
    expr_t rest = regex_repeat(s, x.a, x.b ? x.b - 1 : 0, x.c == EXPR_UNLIMITED ? x.c : x.c - 1);
    return rest != EXPR_ERROR && followed(s, v, x.a, rest);
}

bool regex_derive(struct regex_store *s, expr_t e)
{
    if (s->status || e == EXPR_ERROR) return false;
    if (regex_node(s, e)->edges) return true;
    if (s->depth >= REGEX_DEPTH_MAX) return regex_fail(s, -ELOOP) != EXPR_ERROR;
    struct edges v = {0};
    bool ok = true;
    s->depth++;
    switch ((enum regex_kind)regex_node(s, e)->kind) {
    case REGEX_NONE:
    case REGEX_EMPTY:
        break;
    case REGEX_SET:
        ok = push(s, &v, regex_node(s, e)->a, REGEX_ID_EMPTY);
        break;
    case REGEX_CAT:
        ok = derive_cat(s, e, &v);
        break;
    case REGEX_ALT:
    case REGEX_AND:
    case REGEX_NOT:
        ok = derive_list(s, e, &v);
        break;
    case REGEX_REPEAT:
        ok = derive_repeat(s, e, &v);
        break;
    case REGEX_RULE:
    case REGEX_TOKENS:
        ok = regex_fail(s, -EINVAL) != EXPR_ERROR;
    }
    ok = ok && store_edges(s, e, &v);
    s->depth--;
    free(v.e);
    return ok;
}

expr_t regex_step(struct regex_store *s, expr_t e, uint8_t b)
{
    return regex_derive(s, e) ? target_at(s, e, b) : EXPR_ERROR;
}

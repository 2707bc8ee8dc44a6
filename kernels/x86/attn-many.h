/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Attention of many queries to one block, for attn.c: a lane of q·k and of the softmax is a query, so that the maximum
 * and the sum over the keys are plain operations on vectors.
 */
#include "kernels/x86/attn-values.h"

#ifdef __AVX512F__
#define GROUP_V     2  /* vectors of queries */
#define ACC         16 /* accumulators of q·k */
#define GROUP_LEAST 11 /* queries that are worth a group; fewer are faster in tiles where a lane is a key */
#else
#define GROUP_V     1
#define ACC         4
#define GROUP_LEAST 16
#endif
#define GROUP_Q     (16 * GROUP_V)
#define MANY_FLOATS (192 * 128) /* of the queries whose transposed copies are made at a time */

V size_t width(const struct kern_attn *a)
{
    return a->v ? a->dim : a->v_dim;
}

/* What many queries prefetch while they compute: keys and values of all blocks but the first, then those of
 * kern_attn.soon. */
struct ahead {
    const struct kern_attn *a;
    const char *at; /* the next line, of block number @block, which has @left lines */
    size_t block, left;
    size_t bytes; /* of the keys of a block */
    size_t lines; /* that are prefetched at a time; 0: all are */
};

/* Go to block @i; there may be no more. */
V void ahead_block(struct ahead *x, size_t i)
{
    const struct kern_attn *a = x->a;
    const size_t own = 2 * (a->n_blocks - 1);
    x->block = i;
    x->left = x->bytes / 64;
    if (i < own) {
        x->at = i % 2 ? a->v[1 + i / 2] : a->k[1 + i / 2];
    } else if (i - own < a->n_soon) {
        x->at = a->soon[i - own];
        x->left *= 2;
    } else {
        x->lines = 0;
    }
}

/* Spread the prefetches over @steps. */
V struct ahead begin_ahead(const struct kern_attn *a, enum kern_kv kv, size_t steps)
{
    struct ahead x = {.a = a, .bytes = kern_kv_bytes(kv, a->dim)};
    const size_t lines = 2 * x.bytes / 64 * (a->n_blocks - 1 + a->n_soon);
    if (!steps || !lines) return x;
    x.lines = (lines + steps - 1) / steps;
    ahead_block(&x, 0);
    return x;
}

V void prefetch_ahead(struct ahead *x)
{
    const size_t n = x->lines < x->left ? x->lines : x->left;
    for (size_t i = 0; i < n; i++) _mm_prefetch(x->at + 64 * i, _MM_HINT_T1);
    x->at += 64 * n;
    x->left -= n;
    if (!x->left) ahead_block(x, x->block + 1);
}

/* o[d] = o[d] * c, d < n. */
V void scale_row(float *o, size_t n, v16 c)
{
    size_t d = 0;
    for (; d + 16 <= n; d += 16) v16_store(o + d, v16_mul(v16_load(o + d), c));
    if (d < n) v16_store_n(o + d, v16_mul(v16_load_n(o + d, n - d), c), n - d);
}

/* A group of @n queries from @first on, and a block whose first key is at @pos. */
struct many {
    const struct kern_attn *a;
    struct ahead *ahead;
    const float *q; /* [dim] at stride @ld, transposed */
    size_t ld;
    size_t first, pos;
    unsigned n;
    bool all;                          /* every query sees every key */
    unsigned lo[GROUP_Q], hi[GROUP_Q]; /* visible keys */
    float p[KV_BLOCK][GROUP_Q];
};

/* Queries that are transposed at a time. */
V size_t many_most(size_t dim)
{
    return MANY_FLOATS / dim / GROUP_Q * GROUP_Q;
}

/* The queries of the next group of @left. */
V unsigned group_of(size_t left)
{
    const unsigned n = left < GROUP_Q ? (unsigned)left : GROUP_Q;
    return n < GROUP_Q - 16 + GROUP_LEAST ? below(n, 16) : n;
}

/* to[d * ld + i] = q[i][d]; the last query fills up the last vector. */
V void turn_queries(float *to, size_t ld, const float *const *q, size_t n, size_t dim)
{
    const size_t whole = dim / 8 * 8;
    for (size_t i = 0; i < (n + 15) / 16 * 16; i += 8) {
        for (size_t d = 0; d < whole; d += 8) {
            const float *rows[8];
            UNROLL
            for (unsigned r = 0; r < 8; r++) rows[r] = q[i + r < n ? i + r : n - 1] + d;
            transpose8(to + d * ld + i, ld, rows);
        }
        for (size_t d = whole; d < dim; d++)
            for (unsigned r = 0; r < 8; r++) to[d * ld + i + r] = q[i + r < n ? i + r : n - 1][d];
    }
}

/* Which keys each query sees. Is there one at all? */
V bool look(struct many *s)
{
    const uint32_t *begin = s->a->begin + s->first, *end = s->a->end + s->first;
    bool any = false;
    s->all = true;
    for (unsigned i = 0; i < s->n; i++) {
        const struct keys k = visible(begin[i], end[i], s->pos);
        s->lo[i] = k.lo, s->hi[i] = k.hi;
        any |= k.hi > 0;
        s->all &= k.lo == 0 && k.hi == KV_BLOCK;
    }
    for (unsigned i = s->n; i < GROUP_Q; i++) s->lo[i] = s->hi[i] = 0;
    return any;
}

/* The queries of vector @v that see a key, a bit each. */
V unsigned seeing_any(const struct many *s, unsigned v)
{
    unsigned bits = 0;
    for (unsigned i = 0; i < 16; i++) bits |= (unsigned)(s->hi[16 * v + i] > 0) << i;
    return bits;
}

/* p[j][i] = q_i·k_j * scale. @keys: of a tile. */
V void many_scores(unsigned nv, unsigned keys, struct many *s, const float *k)
{
    const size_t dim = s->a->dim;
    const v16 scale = v16_set1(s->a->scale);
    for (unsigned j0 = 0; j0 < KV_BLOCK; j0 += keys) {
        v16 acc[ACC][GROUP_V];
        UNROLL
        for (unsigned j = 0; j < keys; j++) {
            UNROLL
            for (unsigned v = 0; v < nv; v++) acc[j][v] = v16_set1(0);
        }
        for (size_t d = 0; d < dim; d++) {
            v16 x[GROUP_V];
            if (s->ahead->lines) prefetch_ahead(s->ahead);
            UNROLL
            for (unsigned v = 0; v < nv; v++) x[v] = v16_load(s->q + d * s->ld + 16 * v);
            UNROLL
            for (unsigned j = 0; j < keys; j++) {
                v16 y = v16_set1(k[d * KV_BLOCK + j0 + j]);
                UNROLL
                for (unsigned v = 0; v < nv; v++) acc[j][v] = v16_fma(x[v], y, acc[j][v]);
            }
        }
        UNROLL
        for (unsigned j = 0; j < keys; j++) {
            UNROLL
            for (unsigned v = 0; v < nv; v++) v16_store(s->p[j0 + j] + 16 * v, v16_mul(acc[j][v], scale));
        }
    }
}

/* What ALiBi and the masks need of the queries of a vector. */
struct lanes {
    float slope[16], apart[16]; /* -slope; the block's first position - the query's */
    float lo[16], hi[16];       /* visible keys */
};

V struct lanes lanes_of(const struct many *s, unsigned v)
{
    const struct kern_attn *a = s->a;
    struct lanes x;
    for (unsigned i = 0; i < 16; i++) {
        const unsigned q = 16 * v + i;
        const size_t at = s->first + (q < s->n ? q : 0);
        x.slope[i] = a->slope ? -a->slope[at] : 0;
        x.apart[i] = a->slope ? (float)((int32_t)s->pos - a->at[at]) : 0;
        x.lo[i] = (float)s->lo[q], x.hi[i] = (float)s->hi[q];
    }
    return x;
}

/* What some models and blocks need besides: the softcap, ALiBi, and -INFINITY for masked keys. */
static __attribute__((noinline)) void many_adjust(struct many *s, unsigned v)
{
    const struct kern_attn *a = s->a;
    const struct lanes y = lanes_of(s, v);
    const v16 lo = v16_load(y.lo), hi = v16_load(y.hi);
    for (unsigned j = 0; j < KV_BLOCK; j++) {
        float *p = s->p[j] + 16 * v;
        const v16 key = v16_set1((float)j);
        v16 x = v16_load(p);
        if (a->cap > 0) x = v16_softcap(x, v16_set1(a->cap));
        if (a->slope) x = v16_fma(v16_load(y.slope), v16_abs(v16_add(v16_load(y.apart), key)), x);
        v16_store(p, v16_pick(v16_above(hi, key) & ~v16_above(lo, key), x, v16_set1(-INFINITY)));
    }
}

/* The largest scores, +0 for zeros. */
V v16 many_top(const struct many *s, unsigned v)
{
    v16 top[4];
    UNROLL
    for (unsigned i = 0; i < 4; i++) top[i] = v16_max(v16_load(s->p[i] + 16 * v), v16_set1(-INFINITY));
    for (unsigned j = 4; j < KV_BLOCK; j += 4) {
        UNROLL
        for (unsigned i = 0; i < 4; i++) top[i] = v16_max(v16_load(s->p[j + i] + 16 * v), top[i]);
    }
    return v16_add(v16_max(v16_max(top[0], top[1]), v16_max(top[2], top[3])), v16_set1(0));
}

/* The sums of v16_fold over the first and second 16 keys together. */
V v16 many_sum(const struct many *s, unsigned v)
{
    v16 x[8];
    UNROLL
    for (unsigned j = 0; j < 8; j++) {
        const v16 a = v16_add(v16_load(s->p[j] + 16 * v), v16_load(s->p[j + 16] + 16 * v));
        const v16 b = v16_add(v16_load(s->p[j + 8] + 16 * v), v16_load(s->p[j + 24] + 16 * v));
        x[j] = v16_add(a, b);
    }
    UNROLL
    for (unsigned n = 4; n; n /= 2) {
        UNROLL
        for (unsigned j = 0; j < n; j++) x[j] = v16_add(x[j], x[j + n]);
    }
    return x[0];
}

/* Rescale l and o of the queries whose bit in @bits is set, from at on, by @c. */
V void many_rescale(const struct kern_attn *a, size_t at, unsigned bits, v16 c)
{
    float by[16];
    v16_store(by, c);
    for (; bits; bits &= bits - 1) {
        const unsigned i = (unsigned)__builtin_ctz(bits);
        a->l[at + i] *= by[i];
        scale_row(a->o + (at + i) * a->dim, a->dim, v16_set1(by[i]));
    }
}

/* Vector @v: replace the scores by probabilities, and rescale m, l and o to the new maxima. */
V void many_softmax(struct many *s, unsigned v)
{
    const struct kern_attn *a = s->a;
    const size_t at = s->first + 16 * v;
    const unsigned n = below(s->n - 16 * v, 16);
    const v16 old = v16_load_n(a->m + at, n), m = v16_max(many_top(s, v), old);
    const unsigned lanes = (1u << n) - 1, up = v16_above(m, old) & v16_above(old, v16_set1(-INFINITY)) & lanes;
    if (up) many_rescale(a, at, up, v16_exp_below(v16_sub(old, m)));
    v16_store_n(a->m + at, m, n);
    UNROLL
    for (unsigned j = 0; j < KV_BLOCK; j++) {
        float *p = s->p[j] + 16 * v;
        v16_store(p, v16_exp_below(v16_sub(v16_load(p), m)));
    }
    const v16 l = v16_load_n(a->l + at, n), sum = v16_add(l, many_sum(s, v));
    v16_store_n(a->l + at, s->all ? sum : v16_pick(seeing_any(s, v), sum, l), n);
}

V void many_tile(unsigned nv, struct many *s, const float *k, const float *value)
{
    const struct kern_attn *a = s->a;
    many_scores(nv, ACC / nv, s, k);
    for (unsigned v = 0; v < nv; v++) {
        if (!s->all || a->cap > 0 || a->slope) many_adjust(s, v);
        many_softmax(s, v);
    }
    const struct values y = {value, KERN_KV_F32, a->dim, s->p[0], 1, GROUP_Q, s->lo, s->hi, a->o + s->first * a->dim};
    unsigned i = 0;
    for (; i + PV_Q <= s->n; i += PV_Q) add_together(PV_Q, &y, i);
    for (; i < s->n; i++) add_together(1, &y, i);
}

/* One group and one block, @k and @value, which is f32. */
static __attribute__((noinline)) void many_block(struct many *s, const float *k, const float *value)
{
    if (!look(s)) return;
#if GROUP_V > 1
    if (s->n > 16) {
        many_tile(2, s, k, value);
        return;
    }
#endif
    many_tile(1, s, k, value);
}

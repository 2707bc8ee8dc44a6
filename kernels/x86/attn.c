/* SPDX-License-Identifier: MIT */
/*
 * Attention over KV blocks. For q·k a lane is a key (K is [dim][32]: two vectors a dim), for p·v a lane is a dim.
 * Queries go in tiles that share what is loaded; keys that not all of a tile's queries see are added query by query,
 * since a masked key must not be added, not even as a zero.
 */
#include "kernels/x86/attn-widen.h"

#ifdef __AVX512F__
#define TILE_Q 8 /* queries of a tile: 16 accumulators of q·k */
#define PV_Q   4 /* queries and */
#define PV_D   4 /* vectors of dims of a tile of p·v */
#else
#define TILE_Q 2
#define PV_Q   2
#define PV_D   2
#endif
#define FEW_Q   4   /* queries that wait for memory */
#define MAX_DIM 256 /* of a block that is widened once for many queries */

V size_t width(const struct kern_attn *a)
{
    return a->v ? a->dim : a->v_dim;
}

/* What many queries prefetch while they compute: keys and values of all blocks but the first, then those of
 * kern_attn.soon. */
struct ahead {
    size_t block, at, bytes; /* byte @at of the @bytes of a block */
    size_t lines;            /* for each dim of a tile's keys */
};

struct state {
    const struct kern_attn *a;
    const void *soon[3]; /* blocks that scores() prefetches for few queries */
    unsigned n_soon;
    struct ahead ahead;
    size_t first, pos;               /* query of the tile; position of the block's first key */
    unsigned lo[TILE_Q], hi[TILE_Q]; /* visible keys of the block */
    float p[TILE_Q][KV_BLOCK];
};

/* ALiBi of query @i: the scores of 16 keys, of which the first is at @pos. */
V v16 biased(const struct kern_attn *a, size_t i, v16 s, size_t pos)
{
    static const float lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const v16 d = v16_add(v16_load(lanes), v16_set1((float)((int32_t)pos - a->at[i])));
    return v16_fma(v16_set1(-a->slope[i]), v16_max(d, v16_sub(v16_set1(0), d)), s);
}

/* Few queries wait for memory: prefetch row @i of the blocks that are read after this one's keys. */
V void prefetch_rows(const struct state *s, size_t i, enum kern_kv kv)
{
    const size_t bytes = KV_BLOCK * (kv == KERN_KV_F32 ? 4 : kv == KERN_KV_F16 ? 2 : 1);
    for (unsigned n = 0; n < s->n_soon; n++)
        for (size_t at = 0; at < bytes; at += 64) _mm_prefetch((const char *)s->soon[n] + i * bytes + at, _MM_HINT_T0);
}

/* Block @i of those that are prefetched for many queries; NULL: there are no more. */
V const uint8_t *block_ahead(const struct kern_attn *a, size_t i)
{
    const size_t own = 2 * (a->n_blocks - 1);
    if (i < own) return i % 2 ? a->v[1 + i / 2] : a->k[1 + i / 2];
    return i - own < a->n_soon ? a->soon[i - own] : NULL;
}

/* Spread the prefetches over all blocks: @tiles compute each of them. */
V void begin_ahead(struct state *s, enum kern_kv kv, size_t tiles)
{
    const struct kern_attn *a = s->a;
    const size_t lines = 2 * kern_kv_bytes(kv, a->dim) / 64 * (a->n_blocks - 1 + a->n_soon);
    const size_t rows = a->n_blocks * tiles * a->dim;
    if (!rows) return;
    s->ahead = (struct ahead){.bytes = kern_kv_bytes(kv, a->dim), .lines = (lines + rows - 1) / rows};
}

V void prefetch_ahead(struct state *s)
{
    struct ahead *x = &s->ahead;
    for (size_t n = x->lines; n; n--) {
        const uint8_t *p = block_ahead(s->a, x->block);
        if (!p) {
            x->lines = 0;
            return;
        }
        _mm_prefetch((const char *)p + x->at, _MM_HINT_T1);
        x->at += 64;
        if (x->at < (x->block < 2 * (s->a->n_blocks - 1) ? x->bytes : 2 * x->bytes)) continue;
        x->at = 0;
        x->block++;
    }
}

/* p[i][j] = q_i·k_j * scale, softcapped, with ALiBi, also for keys that are masked. */
V void scores(unsigned nq, struct state *s, const void *k, enum kern_kv kv)
{
    const struct kern_attn *a = s->a;
    const float *const *q = a->q + s->first;
    v16 acc[TILE_Q][2];
    UNROLL
    for (unsigned i = 0; i < nq; i++) acc[i][0] = acc[i][1] = v16_set1(0);
    for (size_t d = 0, end; d < a->dim; d = end) {
        v16 d0 = v16_set1(1), d1 = d0;
        end = a->dim;
        if (kv == KERN_KV_Q8) {
            const uint16_t *scale = scales(k, a->dim) + d / KV_GROUP * KV_BLOCK;
            d0 = v16_load_f16(scale), d1 = v16_load_f16(scale + 16);
            if (end - d > KV_GROUP) end = d + KV_GROUP;
        }
        for (size_t j = d; j < end; j++) {
            if (nq <= FEW_Q)
                prefetch_rows(s, j, kv);
            else if (s->ahead.lines)
                prefetch_ahead(s);
            v16 k0 = load_kv(k, j * KV_BLOCK, kv), k1 = load_kv(k, j * KV_BLOCK + 16, kv);
            if (kv == KERN_KV_Q8) k0 = v16_mul(k0, d0), k1 = v16_mul(k1, d1);
            UNROLL
            for (unsigned i = 0; i < nq; i++) {
                v16 x = v16_set1(q[i][j]);
                acc[i][0] = v16_fma(x, k0, acc[i][0]);
                acc[i][1] = v16_fma(x, k1, acc[i][1]);
            }
        }
    }
    UNROLL
    for (unsigned i = 0; i < nq; i++) {
        v16 s0 = v16_mul(acc[i][0], v16_set1(a->scale)), s1 = v16_mul(acc[i][1], v16_set1(a->scale));
        if (a->cap > 0) s0 = v16_softcap(s0, v16_set1(a->cap)), s1 = v16_softcap(s1, v16_set1(a->cap));
        if (a->slope) s0 = biased(a, s->first + i, s0, s->pos), s1 = biased(a, s->first + i, s1, s->pos + 16);
        v16_store(s->p[i], s0);
        v16_store(s->p[i] + 16, s1);
    }
}

static unsigned below(unsigned n, unsigned max)
{
    return n < max ? n : max;
}

/* Make @top the maximum of query @i, if it is larger, and rescale l and o to it. */
V void raise_top(const struct kern_attn *a, size_t i, float top)
{
    const float m = a->m[i];
    if (m == -INFINITY) {
        a->m[i] = top;
    } else if (top > m) {
        const size_t wide = width(a);
        float *o = a->o + i * wide;
        v16 c = v16_exp(v16_set1(m - top));
        size_t d = 0;
        for (; d + 16 <= wide; d += 16) v16_store(o + d, v16_mul(v16_load(o + d), c));
        if (d < wide) v16_store_n(o + d, v16_mul(v16_load_n(o + d, wide - d), c), wide - d);
        a->l[i] *= _mm256_cvtss_f32(v16_low(c));
        a->m[i] = top;
    }
}

/* Replace the scores by probabilities, and rescale m, l and o to the new maxima. A score is never above the maximum. */
V void softmax(unsigned nq, struct state *s)
{
    const struct kern_attn *a = s->a;
    v16 both[TILE_Q], none = v16_set1(-INFINITY);
    float top[TILE_Q], sum[TILE_Q];
    UNROLL
    for (unsigned i = 0; i < nq; i++) {
        const unsigned lo = s->lo[i], hi = s->hi[i];
        v16 s0 = v16_load(s->p[i]), s1 = v16_load(s->p[i] + 16);
        if (lo > 0 || hi < KV_BLOCK) {
            s0 = v16_range(s0, none, below(lo, 16), below(hi, 16));
            s1 = v16_range(s1, none, lo > 16 ? lo - 16 : 0, hi > 16 ? hi - 16 : 0);
            v16_store(s->p[i], s0);
            v16_store(s->p[i] + 16, s1);
        }
        both[i] = v16_max(s0, s1);
    }
    v16_fold_n(top, both, nq, true);
    for (unsigned i = 0; i < nq; i++)
        if (s->hi[i]) raise_top(a, s->first + i, top[i] + 0.0f);
    UNROLL
    for (unsigned i = 0; i < nq; i++) {
        const v16 m = v16_set1(a->m[s->first + i]);
        v16 p0 = v16_exp_below(v16_sub(v16_load(s->p[i]), m));
        v16 p1 = v16_exp_below(v16_sub(v16_load(s->p[i] + 16), m));
        v16_store(s->p[i], p0);
        v16_store(s->p[i] + 16, p1);
        both[i] = v16_add(p0, p1);
    }
    v16_fold_n(sum, both, nq, false);
    for (unsigned i = 0; i < nq; i++)
        if (s->hi[i]) a->l[s->first + i] += sum[i];
}

/* The values of keys [lo, hi) of a block. */
struct values {
    const void *v; /* the block */
    enum kern_kv kv;
    unsigned lo, hi;
};

/* o_i += p_ij v_j over the keys of @y, for queries i0 … i0 + nq - 1 and nd vectors of dims from d0. The last vector has
 * @last lanes, the others 16. */
V void add_values(unsigned nq, unsigned nd, const struct state *s, unsigned i0, struct values y, size_t d0, size_t last)
{
    const enum kern_kv kv = y.kv;
    const void *v = y.v;
    size_t dim = width(s->a);
    float *o = s->a->o + (s->first + i0) * dim + d0;
    v16 acc[PV_Q][PV_D];
    UNROLL
    for (unsigned i = 0; i < nq; i++) {
        UNROLL
        for (unsigned d = 0; d < nd; d++)
            acc[i][d] =
                last < 16 && d == nd - 1 ? v16_load_n(o + i * dim + 16 * d, last) : v16_load(o + i * dim + 16 * d);
    }
    for (unsigned j = y.lo; j < y.hi; j++) {
        v16 x[PV_D];
        UNROLL
        for (unsigned d = 0; d < nd; d++) {
            size_t at = j * dim + d0 + 16 * d;
            x[d] = last < 16 && d == nd - 1 ? load_kv_n(v, at, last, kv) : load_kv(v, at, kv);
            if (kv == KERN_KV_Q8)
                x[d] = v16_mul(x[d], v16_set1_f16(scales(v, dim) + j * kv_groups(dim) + (d0 + 16 * d) / KV_GROUP));
        }
        UNROLL
        for (unsigned i = 0; i < nq; i++) {
            v16 p = v16_set1(s->p[i0 + i][j]);
            UNROLL
            for (unsigned d = 0; d < nd; d++) acc[i][d] = v16_fma(p, x[d], acc[i][d]);
        }
    }
    UNROLL
    for (unsigned i = 0; i < nq; i++) {
        UNROLL
        for (unsigned d = 0; d < nd; d++) {
            if (last < 16 && d == nd - 1)
                v16_store_n(o + i * dim + 16 * d, acc[i][d], last);
            else
                v16_store(o + i * dim + 16 * d, acc[i][d]);
        }
    }
}

/* All dims of nq queries. */
V void add_rows(unsigned nq, const struct state *s, unsigned i0, struct values y)
{
    size_t d = 0, dim = width(s->a);
    if (y.lo >= y.hi) return;
    for (; d + 16 * PV_D <= dim; d += 16 * PV_D) add_values(nq, PV_D, s, i0, y, d, 16);
    for (; d + 16 <= dim; d += 16) add_values(nq, 1, s, i0, y, d, 16);
    if (d < dim) add_values(nq, 1, s, i0, y, d, dim - d);
}

/* Values of nq queries: together for keys that all of them see, query by query for the keys before and after. */
V void add_together(unsigned nq, const struct state *s, unsigned i0, const void *v, enum kern_kv kv)
{
    unsigned lo = 0, hi = KV_BLOCK;
    for (unsigned i = i0; i < i0 + nq; i++) {
        if (s->lo[i] > lo) lo = s->lo[i];
        if (s->hi[i] < hi) hi = s->hi[i];
    }
    if (lo >= hi) lo = hi = KV_BLOCK; /* no key is visible to all: add_rows runs for each query alone */
    for (unsigned i = i0; i < i0 + nq; i++) add_rows(1, s, i, (struct values){v, kv, s->lo[i], below(s->hi[i], lo)});
    add_rows(nq, s, i0, (struct values){v, kv, lo, hi});
    for (unsigned i = i0; i < i0 + nq; i++) add_rows(1, s, i, (struct values){v, kv, hi, s->hi[i]});
}

/* One tile of queries and one block. */
V void tile(unsigned nq, struct state *s, size_t first, size_t ib, const void *k, const void *v, enum kern_kv kv)
{
    const struct kern_attn *a = s->a;
    size_t pos = ib * KV_BLOCK;
    bool any = false;
    for (unsigned i = 0; i < nq; i++) {
        size_t begin = a->begin[first + i], end = a->end[first + i];
        s->lo[i] = begin <= pos ? 0 : begin - pos < KV_BLOCK ? (unsigned)(begin - pos) : KV_BLOCK;
        s->hi[i] = end <= pos ? 0 : end - pos < KV_BLOCK ? (unsigned)(end - pos) : KV_BLOCK;
        if (s->lo[i] >= s->hi[i]) s->lo[i] = s->hi[i] = 0;
        any |= s->hi[i] > 0;
    }
    if (!any) return;
    s->first = first;
    s->pos = pos;
    scores(nq, s, k, kv);
    s->n_soon = 0;
    softmax(nq, s);
    if (nq % PV_Q == 0) {
        for (unsigned i = 0; i < nq; i += PV_Q) add_together(PV_Q, s, i, v, kv);
    } else {
        add_together(nq, s, 0, v, kv); /* nq < PV_Q */
    }
}

V void block(struct state *s, size_t ib, const void *k, const void *v, enum kern_kv kv)
{
    size_t i = 0, n = s->a->n_q;
    for (; i + TILE_Q <= n; i += TILE_Q) tile(TILE_Q, s, i, ib, k, v, kv);
#if TILE_Q > 4
    if (n - i == 4 || n - i == 7) tile(4, s, i, ib, k, v, kv), i += 4;
    for (; i + 3 <= n; i += 3) tile(3, s, i, ib, k, v, kv);
#endif
#if TILE_Q > 2
    for (; i + 2 <= n; i += 2) tile(2, s, i, ib, k, v, kv);
#endif
    for (; i < n; i++) tile(1, s, i, ib, k, v, kv);
}

static void start(const struct kern_attn *a)
{
    if (a->more) return;
    for (size_t i = 0; i < a->n_q; i++) {
        a->m[i] = -INFINITY;
        a->l[i] = 0;
    }
    memset(a->o, 0, a->n_q * width(a) * sizeof(*a->o));
}

/* The values are parts of the keys. */
V void attn_shared(const struct kern_attn *a, enum kern_kv kv)
{
    float wide[KV_BLOCK * KERN_SHARED_DIM], v[KV_BLOCK * KERN_SHARED_DIM];
    struct state s = {.a = a};
    start(a);
    for (size_t ib = 0; ib < a->n_blocks; ib++) {
        const float *k = kv == KERN_KV_F32 ? a->k[ib] : wide;
        if (kv != KERN_KV_F32) widen_k(wide, a->k[ib], a->dim, kv);
        transpose(v, k, a->v_dim);
        block(&s, ib, k, v, KERN_KV_F32);
    }
}

/* Functions of their own: the buffers are not on the stack of other models. */
static __attribute__((noinline)) void shared_f32(const struct kern_attn *a)
{
    attn_shared(a, KERN_KV_F32);
}

static __attribute__((noinline)) void shared_f16(const struct kern_attn *a)
{
    attn_shared(a, KERN_KV_F16);
}

static __attribute__((noinline)) void shared_q8(const struct kern_attn *a)
{
    attn_shared(a, KERN_KV_Q8);
}

/* The values of the first block, and keys and values of the block behind each, are read soon. */
V void look_ahead(struct state *s, size_t ib, enum kern_kv kv)
{
    const struct kern_attn *a = s->a;
    const bool more = ib + 1 < a->n_blocks;
    const void *k = more ? a->k[ib + 1] : a->n_soon ? a->soon[0] : NULL;
    const void *v = more ? a->v[ib + 1] : k ? (const uint8_t *)k + kern_kv_bytes(kv, a->dim) : NULL;
    s->n_soon = 0;
    if (!ib) s->soon[s->n_soon++] = a->v[0];
    if (k) s->soon[s->n_soon++] = k, s->soon[s->n_soon++] = v;
}

KERN_ATTN(X86(attn_f32))
{
    struct state s = {.a = a};
    if (!a->v) {
        shared_f32(a);
        return;
    }
    start(a);
    for (size_t ib = 0; ib < a->n_blocks; ib++) {
        look_ahead(&s, ib, KERN_KV_F32);
        block(&s, ib, a->k[ib], a->v[ib], KERN_KV_F32);
    }
}

typedef void widen_fn(float *k, float *v, const void *kblock, const void *vblock, size_t dim);

/* Few queries read the block in its KV type, many read a copy widened to f32. */
V void attn(const struct kern_attn *a, enum kern_kv kv, widen_fn *widen)
{
    struct state s = {.a = a};
    start(a);
    if (a->n_q <= TILE_Q || a->dim > MAX_DIM) {
        for (size_t ib = 0; ib < a->n_blocks; ib++) {
            look_ahead(&s, ib, kv);
            block(&s, ib, a->k[ib], a->v[ib], kv);
        }
        return;
    }
    float k[KV_BLOCK * MAX_DIM], v[KV_BLOCK * MAX_DIM];
    begin_ahead(&s, kv, (a->n_q + TILE_Q - 1) / TILE_Q);
    for (size_t ib = 0; ib < a->n_blocks; ib++) {
        widen(k, v, a->k[ib], a->v[ib], a->dim);
        block(&s, ib, k, v, KERN_KV_F32);
    }
}

KERN_ATTN(X86(attn_f16))
{
    if (a->v)
        attn(a, KERN_KV_F16, widen_f16);
    else
        shared_f16(a);
}

KERN_ATTN(X86(attn_q8))
{
    if (a->v)
        attn(a, KERN_KV_Q8, widen_q8);
    else
        shared_q8(a);
}

/* out = fma(o, b, out * a) */
static void mix(float *out, const float *o, float a, float b, size_t dim)
{
    for (size_t d = 0; d < dim; d += 16) {
        size_t n = dim - d < 16 ? dim - d : 16;
        v16 old = v16_mul(v16_load_n(out + d, n), v16_set1(a));
        v16_store_n(out + d, v16_fma(v16_load_n(o + d, n), v16_set1(b), old), n);
    }
}

void X86(attn_merge)(float *out, const float *m, const float *l, size_t ld_m, const float *o, size_t ld_o, size_t n_seg,
                     size_t dim)
{
    float big = 0, sum = 0;
    bool any = false;
    for (size_t i = 0; i < n_seg; i++) {
        float mi = m[i * ld_m], li = l[i * ld_m];
        if (!(li > 0)) continue;
        if (!any) {
            any = true;
            big = mi, sum = li;
            memcpy(out, o + i * ld_o, dim * sizeof(*out));
            continue;
        }
        float top = mi > big ? mi : big;
        float a = _mm256_cvtss_f32(v16_low(v16_exp(v16_set1(big - top))));
        float b = _mm256_cvtss_f32(v16_low(v16_exp(v16_set1(mi - top))));
        big = top;
        sum = fmaf(li, b, sum * a);
        mix(out, o + i * ld_o, a, b, dim);
    }
    for (size_t d = 0; d < dim; d += 16) {
        size_t n = dim - d < 16 ? dim - d : 16;
        v16_store_n(out + d, v16_div(v16_load_n(out + d, n), v16_set1(sum)), n);
    }
}

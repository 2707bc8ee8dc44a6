/* SPDX-License-Identifier: MIT */
/*
 * Attention over KV blocks. For few queries a lane of q·k is a key (K is [dim][32]: two vectors a dim), for many
 * (attn-many.h) it is a query; for p·v a lane is a dim. Queries go in tiles that share what is loaded.
 */
#include "kernels/x86/attn-many.h"

#ifdef __AVX512F__
#define TILE_Q 8 /* queries of a tile: 16 accumulators of q·k */
#else
#define TILE_Q 2
#endif
#define NEAR    2   /* halves of blocks (keys or values) that scores() prefetches into the first cache */
#define SOON    4   /* these, and those behind them for the second cache */
#define MAX_DIM 256 /* of a block that is widened once for many queries */

struct state {
    const struct kern_attn *a;
    const void *soon[SOON]; /* halves of blocks that scores() prefetches; NULL: none */
    const void *soon_v;     /* values that the product p·v prefetches; NULL: none */
    struct ahead *ahead;
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

/* Few queries wait for memory: prefetch row @i of the halves of blocks that are read soon. */
V void prefetch_rows(const uint8_t *const *soon, size_t i, enum kern_kv kv)
{
    const size_t bytes = KV_BLOCK * value_bytes(kv);
    UNROLL
    for (unsigned n = 0; n < SOON; n++) {
        UNROLL
        for (size_t at = 0; at < bytes; at += 64) {
            const char *line = (const char *)soon[n] + i * bytes + at;
            if (n < NEAR)
                _mm_prefetch(line, _MM_HINT_T0);
            else
                _mm_prefetch(line, _MM_HINT_T1);
        }
    }
}

/* p[i][j] = q_i·k_j * scale, softcapped, with ALiBi, also for keys that are masked. */
V void scores(unsigned nq, struct state *s, const void *k, enum kern_kv kv)
{
    const struct kern_attn *a = s->a;
    const float *q[TILE_Q];
    const uint8_t *soon[SOON];
    v16 acc[TILE_Q][2];
    UNROLL
    for (unsigned i = 0; i < nq; i++) {
        q[i] = a->q[s->first + i];
        acc[i][0] = acc[i][1] = v16_set1(0);
    }
    bool waits = false;
    UNROLL
    for (unsigned i = 0; i < SOON; i++) {
        waits |= s->soon[i] != NULL;
        soon[i] = s->soon[i] ? s->soon[i] : k;
    }
    for (size_t d = 0, end; d < a->dim; d = end) {
        v16 d0 = v16_set1(1), d1 = d0;
        end = a->dim;
        if (kv == KERN_KV_Q8) {
            const uint16_t *scale = scales(k, a->dim) + d / KV_GROUP * KV_BLOCK;
            d0 = v16_load_f16(scale), d1 = v16_load_f16(scale + 16);
            if (end - d > KV_GROUP) end = d + KV_GROUP;
        }
        for (size_t j = d; j < end; j++) {
            if (waits)
                prefetch_rows(soon, j, kv);
            else if (s->ahead && s->ahead->lines)
                prefetch_ahead(s->ahead);
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

/* Make @top the maximum of query @i, if it is larger, and rescale l and o to it. */
V void raise_top(const struct kern_attn *a, size_t i, float top)
{
    const float m = a->m[i];
    if (m == -INFINITY) {
        a->m[i] = top;
    } else if (top > m) {
        const v16 c = v16_exp(v16_set1(m - top));
        scale_row(a->o + i * width(a), width(a), c);
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

/* One tile of queries and one block. */
V void tile(unsigned nq, struct state *s, size_t first, size_t ib, const void *k, const void *v, enum kern_kv kv)
{
    const struct kern_attn *a = s->a;
    size_t pos = ib * KV_BLOCK;
    bool any = false;
    for (unsigned i = 0; i < nq; i++) {
        const struct keys seen = visible(a->begin[first + i], a->end[first + i], pos);
        s->lo[i] = seen.lo, s->hi[i] = seen.hi;
        any |= seen.hi > 0;
    }
    if (!any) return;
    s->first = first;
    s->pos = pos;
    scores(nq, s, k, kv);
    memset(s->soon, 0, sizeof(s->soon));
    softmax(nq, s);
    struct values y = {v, kv, width(a), s->p[0], KV_BLOCK, 1, s->lo, s->hi, a->o + first * width(a), s->soon_v};
    s->soon_v = NULL;
    if (nq % PV_Q == 0) {
        for (unsigned i = 0; i < nq; i += PV_Q, y.soon = NULL) add_together(PV_Q, &y, i);
    } else {
        add_together(nq, &y, 0); /* nq < PV_Q */
    }
}

/* One tile: functions of their own, each with all registers for its loops. */
typedef void tile_fn(struct state *s, size_t first, size_t ib, const void *k, const void *v);

#define TILE(nq, name, kv)                                                                                             \
    static __attribute__((noinline)) void tile_##nq##_##name(struct state *s, size_t first, size_t ib, const void *k,  \
                                                             const void *v)                                            \
    {                                                                                                                  \
        tile(nq, s, first, ib, k, v, kv);                                                                              \
    }
#if TILE_Q == 8
#define TILES(name, kv)                                                                                                \
    TILE(1, name, kv)                                                                                                  \
    TILE(2, name, kv)                                                                                                  \
    TILE(3, name, kv)                                                                                                  \
    TILE(4, name, kv)                                                                                                  \
    TILE(8, name, kv)                                                                                                  \
    static tile_fn *const tiles_##name[] = {                                                                           \
        [1] = tile_1_##name, [2] = tile_2_##name, [3] = tile_3_##name, [4] = tile_4_##name, [8] = tile_8_##name};
#else
#define TILES(name, kv)                                                                                                \
    TILE(1, name, kv)                                                                                                  \
    TILE(2, name, kv)                                                                                                  \
    static tile_fn *const tiles_##name[] = {[1] = tile_1_##name, [2] = tile_2_##name};
#endif

TILES(f32, KERN_KV_F32)
TILES(f16, KERN_KV_F16)
TILES(q8, KERN_KV_Q8)

/* Queries of the next tile of @left. */
V size_t tile_of(size_t left)
{
    if (left >= TILE_Q) return TILE_Q;
    return left == 4 || left == 7 ? 4 : left >= 3 ? 3 : left;
}

/* Queries [i, n) and one block. */
V void block(tile_fn *const *tiles, struct state *s, size_t i, size_t n, size_t ib, const void *k, const void *v)
{
    for (size_t now; i < n; i += now) {
        now = tile_of(n - i);
        tiles[now](s, i, ib, k, v);
    }
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
        block(tiles_f32, &s, 0, a->n_q, ib, k, v);
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

/* Keys of block @i, also of those behind the last one. NULL: none is known. */
V const void *keys_of(const struct kern_attn *a, size_t i)
{
    if (i < a->n_blocks) return a->k[i];
    return i - a->n_blocks < a->n_soon ? a->soon[i - a->n_blocks] : NULL;
}

V const void *values_of(const struct kern_attn *a, size_t i, enum kern_kv kv)
{
    const uint8_t *k = keys_of(a, i);
    if (i < a->n_blocks) return a->v[i];
    return k ? k + kern_kv_bytes(kv, a->dim) : NULL;
}

/* During block @ib the one behind it is prefetched into the first cache, and the next into the second; during the first
 * block also its own values. */
V void look_ahead(struct state *s, size_t ib, enum kern_kv kv)
{
    s->soon[0] = keys_of(s->a, ib + 1);
    s->soon[1] = ib ? NULL : s->a->v[0];
    s->soon[2] = keys_of(s->a, ib + 2);
    s->soon[3] = values_of(s->a, ib + 2, kv);
    s->soon_v = values_of(s->a, ib + 1, kv);
}

/* Many queries read a copy of the block that is widened to f32, unless it is f32. */
V void attn_many(const struct kern_attn *a, enum kern_kv kv, widen_fn *widen)
{
    float k[KV_BLOCK * MAX_DIM], v[KV_BLOCK * MAX_DIM], q[MANY_FLOATS];
    const size_t tiles = (a->n_q + 15) / 16 * KV_BLOCK / ACC; /* of the groups, each one step for each dim */
    struct ahead ahead = begin_ahead(a, kv, a->n_blocks * tiles * a->dim);
    struct state s = {.a = a, .ahead = &ahead};
    const size_t most = many_most(a->dim);
    struct many m = {.a = a, .ahead = &ahead, .ld = most};
    for (size_t from = 0, to, i; from < a->n_q; from = to) {
        to = a->n_q - from < most ? a->n_q : from + most;
        turn_queries(q, most, a->q + from, to - from, a->dim);
        for (size_t ib = 0; ib < a->n_blocks; ib++) {
            const bool wide = kv == KERN_KV_F32;
            if (!wide) widen(k, v, a->k[ib], a->v[ib], a->dim);
            const float *keys = wide ? a->k[ib] : k, *values = wide ? a->v[ib] : v;
            for (i = from; i + GROUP_LEAST <= to; i += m.n) {
                m.n = group_of(to - i);
                m.first = i, m.q = q + (i - from), m.pos = ib * KV_BLOCK;
                many_block(&m, keys, values);
            }
            block(tiles_f32, &s, i, to, ib, keys, values);
        }
    }
}

/* Few queries read the block in its KV type. */
V void attn(const struct kern_attn *a, enum kern_kv kv, tile_fn *const *tiles, widen_fn *widen)
{
    struct state s = {.a = a};
    start(a);
    if (a->n_q > TILE_Q && a->dim <= MAX_DIM) {
        attn_many(a, kv, widen);
        return;
    }
    for (size_t ib = 0; ib < a->n_blocks; ib++) {
        look_ahead(&s, ib, kv);
        block(tiles, &s, 0, a->n_q, ib, a->k[ib], a->v[ib]);
    }
}

KERN_ATTN(X86(attn_f32))
{
    if (a->v)
        attn(a, KERN_KV_F32, tiles_f32, NULL);
    else
        shared_f32(a);
}

KERN_ATTN(X86(attn_f16))
{
    if (a->v)
        attn(a, KERN_KV_F16, tiles_f16, widen_f16);
    else
        shared_f16(a);
}

KERN_ATTN(X86(attn_q8))
{
    if (a->v)
        attn(a, KERN_KV_Q8, tiles_q8, widen_q8);
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

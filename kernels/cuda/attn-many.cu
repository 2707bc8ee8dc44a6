/* SPDX-License-Identifier: MIT */
/*
 * Attention of tiles with many queries, for heads of up to 64, 128 or 256 values, a multiple of 8. A CTA of four warps
 * computes up to 16 R queries of a tile that share a KV head. K and V of a block are converted to f32 once and lie in
 * shared memory; those of the next block are read meanwhile, and take their places as soon as all warps have read them.
 * A warp has 4 R queries. Its lanes are 4 by 8: a lane computes R of the queries, of the scores
 * of each block 4 keys, of the outputs D dims. Every sum has the order of kernels/ARITHMETIC.md.
 */
#include "kernels/cuda/kv.cuh"

#define WARPS   4
#define THREADS (WARPS * CUDA_WARP)

/* Lanes of a warp: the queries' lane, 0 … 3, and that of keys and dims, 0 … 7. Each half of a warp reads shared memory
 * at once only if the lanes of a pair, or lane i and lane i ^ 2, want the same 16 bytes: so bits 0 and 4 are the
 * queries'. */
__device__ static inline uint32_t query_lane()
{
    return (threadIdx.x & 1) | (threadIdx.x >> 3 & 2);
}

__device__ static inline uint32_t key_lane()
{
    return threadIdx.x >> 1 & 7;
}

/* The lane of the same queries and keys @key. */
__device__ static inline uint32_t lane_of_key(uint32_t key)
{
    return (threadIdx.x & 17) | key << 1;
}

/* The KV head of a CTA: those of a tile follow each other, so that large tiles begin first for all heads. */
__device__ static inline uint32_t head_of(const struct cuda_attn &a)
{
    return blockIdx.x % a.kv_heads;
}

/* Shared memory, in floats. Key j of K lies at j % 8 * 4 + j / 8, so that the 4 keys of a lane, its number + 8 i, lie
 * side by side. Weights are [32][4 R]. */
template <int R, int D> struct room {
    static constexpr uint32_t rows = WARPS * 4 * R;
    float q[8 * D][rows];
    float k[8 * D][CUDA_ATTN_KEYS];
    float v[CUDA_WARP][8 * D];
    float p[WARPS][CUDA_WARP * 4 * R];
    uint2 seen[rows]; /* the positions that a query sees */
};

/* exp of a number that is not above 0, or of a NaN. */
__device__ static inline float exp_below(float x)
{
    const float p = exp_within(x); /* without a branch */
    return x < EXP_MIN ? 0.0f : p;
}

/* --- K and V --- */

/* Eight values of K or V as they lie in memory; @scale: of Q8. */
template <int type> struct eight {
    uint4 x[type == KV_F32 ? 2 : 1], scale;
};

/* Read values 8 i … 8 i + 7 of K, [dim][32], or of V, [32][dim]. */
template <int type, int D, bool V>
__device__ static inline void read8(const uint8_t *from, uint32_t dim, uint32_t i, struct eight<type> &x)
{
    if (type == KV_Q8) {
        const uint2 c = __ldg((const uint2 *)from + i);
        const uint16_t *scale = (const uint16_t *)(from + kv_codes(dim));
        x.x[0] = make_uint4(c.x, c.y, 0, 0);
        if (V && dim == 8 * D)
            x.scale.x = __ldg(scale + i / D * kv_groups(8 * D) + 8 * i % (8 * D) / CUDA_WARP);
        else if (V)
            x.scale.x = __ldg(scale + 8 * i / dim * kv_groups(dim) + 8 * i % dim / CUDA_WARP);
        else
            x.scale = __ldg((const uint4 *)scale + i / 4 / CUDA_WARP * 4 + i % 4);
        return;
    }
    constexpr uint32_t n = type == KV_F32 ? 2 : 1;
#pragma unroll
    for (uint32_t k = 0; k < n; k++) x.x[k] = __ldg((const uint4 *)from + n * i + k);
}

__device__ static inline void floats(const uint4 &h, float x[8])
{
    const uint32_t w[4] = {h.x, h.y, h.z, h.w};
#pragma unroll
    for (int n = 0; n < 4; n++) {
        const float2 f = __half22float2(*(const __half2 *)&w[n]);
        x[2 * n] = f.x, x[2 * n + 1] = f.y;
    }
}

/* Convert them. */
template <int type, bool V> __device__ static inline void convert8(const struct eight<type> &from, float x[8])
{
    const uint4 &a = from.x[0];
    if (type == KV_F16) {
        floats(a, x);
        return;
    }
    if (type == KV_F32) {
        const uint4 &b = from.x[type == KV_F32];
        const uint32_t w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
        for (int n = 0; n < 8; n++) x[n] = __uint_as_float(w[n]);
        return;
    }
    if (!V) floats(from.scale, x);
#pragma unroll
    for (int n = 0; n < 8; n++) {
        const float scale = V ? half_((uint16_t)from.scale.x) : x[n];
        x[n] = (float)(int8_t)((n < 4 ? a.x : a.y) >> n % 4 * 8) * scale;
    }
}

/* What a thread has of K or V of a block: each 128th eight. */
template <int type, int D> struct part {
    static constexpr uint32_t n = D * CUDA_WARP / THREADS;
    struct eight<type> x[n];
};

template <int type, int D, bool V>
__device__ static inline void read_part(const uint8_t *from, uint32_t dim, struct part<type, D> &x)
{
#pragma unroll
    for (uint32_t u = 0; u < x.n; u++) {
        const uint32_t i = threadIdx.x + u * THREADS;
        if (i < dim * 4) read8<type, D, V>(from, dim, i, x.x[u]);
    }
}

template <int type, int D>
__device__ static inline void put_keys(const struct part<type, D> &x, uint32_t dim, float (*to)[CUDA_ATTN_KEYS])
{
#pragma unroll
    for (uint32_t u = 0; u < x.n; u++) {
        const uint32_t i = threadIdx.x + u * THREADS;
        float v[8];
        if (i >= dim * 4) break;
        convert8<type, false>(x.x[u], v);
#pragma unroll
        for (int e = 0; e < 8; e++) to[i / 4][e * 4 + i % 4] = v[e];
    }
}

template <int type, int D>
__device__ static inline void put_values(const struct part<type, D> &x, uint32_t dim, float (*to)[8 * D])
{
#pragma unroll
    for (uint32_t u = 0; u < x.n; u++) {
        const uint32_t i = threadIdx.x + u * THREADS;
        float v[8];
        if (i >= dim * 4) break;
        convert8<type, true>(x.x[u], v);
        float *at = dim == 8 * D ? to[0] + 8 * i : &to[8 * i / dim][8 * i % dim];
        *(float4 *)at = make_float4(v[0], v[1], v[2], v[3]);
        *(float4 *)(at + 4) = make_float4(v[4], v[5], v[6], v[7]);
    }
}

/* --- the queries of a lane --- */

template <int n> __device__ static inline void read(float *to, const float *from)
{
#pragma unroll
    for (int i = 0; i < n / 4; i++) {
        const float4 x = *(const float4 *)(from + 4 * i);
        to[4 * i] = x.x, to[4 * i + 1] = x.y, to[4 * i + 2] = x.z, to[4 * i + 3] = x.w;
    }
    if (n == 2) to[0] = from[0], to[1] = from[1];
}

/* Scores of a block. */
template <int R, int D>
__device__ static inline void multiply(const struct room<R, D> &at, uint32_t row, uint32_t dim, float s[R][4])
{
    const uint32_t lane = key_lane();
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int i = 0; i < 4; i++) s[r][i] = 0.0f;
#pragma unroll 1
    for (uint32_t d0 = 0; d0 < dim; d0 += 8)
#pragma unroll
        for (uint32_t d = 0; d < 8; d++) {
            float x[R], y[4];
            read<R>(x, &at.q[d0 + d][row]);
            read<4>(y, &at.k[d0 + d][lane * 4]);
#pragma unroll
            for (int r = 0; r < R; r++)
#pragma unroll
                for (int i = 0; i < 4; i++) s[r][i] = fma_(x[r], y[i], s[r][i]);
        }
}

/* Of R values of each of the 8 lanes, one sum or maximum: that of value owned(). The order is that of fold32: lanes
 * with a distance of 4, 2, 1. */
template <int R, bool MAX> __device__ static inline float reduce(float x[R])
{
    int n = R;
#pragma unroll
    for (int h = 4; h; h /= 2) {
        const bool upper = key_lane() & h;
        if (n > 1) {
            n /= 2;
#pragma unroll
            for (int i = 0; i < n; i++) {
                const float keep = upper ? x[i + n] : x[i];
                const float got = __shfl_xor_sync(ALL, upper ? x[i] : x[i + n], 2 * h);
                x[i] = MAX ? fmaxf(keep, got) : keep + got;
            }
        } else {
            const float got = __shfl_xor_sync(ALL, x[0], 2 * h);
            x[0] = MAX ? fmaxf(x[0], got) : x[0] + got;
        }
    }
    return x[0];
}

/* The value of query @r, which a lane of it owns. */
template <int R> __device__ static inline float of_query(float x, int r)
{
    return __shfl_sync(ALL, x, lane_of_key(r * (8 / R)));
}

/* Where the weights of the lane's queries for key @j lie, of each 4 of them. Eight lanes that store at once, of two
 * queries' lanes and four keys, meet different banks. */
template <int R> __device__ static inline uint32_t place(uint32_t j, int part)
{
    const uint32_t other = R > 2 ? j & 2 : j >> 1 & 2;
    return j * (4 * R) + (query_lane() ^ other) * R + (R > 4 ? (part ^ j) & 1 : 0) * 4;
}

/* A power of two, at most 1: products with it are exact, or too small to change exp. */
__device__ static inline bool is_even(float scale)
{
    const uint32_t bits = __float_as_uint(scale);
    return !(bits & 0x7fffff) && bits >= 0x00800000 && bits <= 0x3f800000;
}

/* What a lane has of its queries. It owns one of them: m and l are that one's. */
template <int R, int D> struct lane_of {
    float m, l, o[R][D];
};

/* The softmax of a block: scores -> weights in shared memory; @c: the factors of what was there before. @mask: the keys
 * that a query sees, from the lane's first on, unless it is ALL that are seen. */
template <int R, int D, bool CAP, bool EVERY, bool EVEN>
__device__ static inline void weigh(const struct cuda_attn &a, struct lane_of<R, D> &x, float s[R][4],
                                    const uint32_t mask[R], float *p, float c[R])
{
    float t[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (!EVEN) s[r][i] = s[r][i] * a.scale;
            if (CAP) s[r][i] = softcap_(s[r][i], a.cap);
            if (!EVERY && !(mask[r] >> 8 * i & 1)) s[r][i] = NOTHING;
        }
        t[r] = fmaxf(fmaxf(s[r][0], s[r][1]), fmaxf(s[r][2], s[r][3]));
    }
    const float most = reduce<R, true>(t), top = (EVEN ? most * a.scale : most) + 0.0f;
    const float factor = x.m != NOTHING && top > x.m ? exp_below(x.m - top) : 1.0f;
    x.m = fmaxf(x.m, top);
#pragma unroll
    for (int r = 0; r < R; r++) {
        const float m = of_query<R>(x.m, r);
        c[r] = of_query<R>(factor, r);
#pragma unroll
        for (int i = 0; i < 4; i++) { /* without a branch */
            const uint32_t seen = EVERY ? ~0u : 0u - (mask[r] >> 8 * i & 1);
            const float v = EVEN ? fma_(s[r][i], a.scale, -m) : s[r][i] - m;
            s[r][i] = __uint_as_float(__float_as_uint(exp_below(v)) & seen);
        }
        t[r] = (s[r][0] + s[r][2]) + (s[r][1] + s[r][3]);
    }
    x.l = x.l * factor + reduce<R, false>(t);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t j = key_lane() + 8 * i;
        if (R == 2) *(float2 *)(p + place<R>(j, 0)) = make_float2(s[0][i], s[1][i]);
#pragma unroll
        for (int r = 0; r < R / 4; r++)
            *(float4 *)(p + place<R>(j, r)) =
                make_float4(s[4 * r][i], s[4 * r + 1][i], s[4 * r + 2][i], s[4 * r + 3][i]);
    }
}

/* One key: its weights @p, [key][4 R], and its values @v from the lane's first dim on. */
template <int R, int D>
__device__ static inline void read_key(const float *p, const float *v, uint32_t j, float w[R], float e[D])
{
#pragma unroll
    for (int r = 0; r < R; r += 4) read < R<4 ? R : 4>(w + r, p + place<R>(j, r / 4));
#pragma unroll
    for (int d = 0; d < D; d += 4) read<4>(e + d, v + j * 8 * D + d * 8);
}

/* The same of a key of eight, number @j, where @p are those of the keys 0 and 2 (R is 2: 4) at their places. */
template <int R, int D>
__device__ static inline void read_near(const float *const p[2], const float *v, uint32_t j, float w[R], float e[D])
{
    const float *from = p[R > 2 ? j >> 1 & 1 : j >> 2] + j * (4 * R);
#pragma unroll
    for (int r = 0; r < R; r += 4) read < R<4 ? R : 4>(w + r, from + (R > 4 ? (r / 4 ^ j) & 1 : 0) * 4);
#pragma unroll
    for (int d = 0; d < D; d += 4) read<4>(e + d, v + j * 8 * D + d * 8);
}

/* o = o c + p v, keys ascending. @all: all queries of the warp see all keys; else those of @mask, of the keys [lo, hi).
 */
template <int R, int D>
__device__ static inline void add_values(struct lane_of<R, D> &x, const float *p, const float *v, const float c[R],
                                         const uint32_t mask[R], bool all, uint32_t lo, uint32_t hi)
{
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int d = 0; d < D; d++) x.o[r][d] = x.o[r][d] * c[r];
    float w[R], e[D];
    if (all) {
        const float *near[2] = {p + query_lane() * R, p + (query_lane() ^ 2) * R};
#pragma unroll 1
        for (uint32_t j0 = 0; j0 < CUDA_WARP; j0 += 8) {
#pragma unroll
            for (uint32_t j = 0; j < 8; j++) {
                read_near<R, D>(near, v, j, w, e);
#pragma unroll
                for (int r = 0; r < R; r++)
#pragma unroll
                    for (int d = 0; d < D; d++) x.o[r][d] = fma_(w[r], e[d], x.o[r][d]);
            }
            near[0] += 8 * 4 * R, near[1] += 8 * 4 * R, v += 8 * 8 * D;
        }
        return;
    }
#pragma unroll 1
    for (uint32_t j = lo; j < hi; j++) {
        read_key<R, D>(p, v, j, w, e);
#pragma unroll
        for (int r = 0; r < R; r++)
            if (mask[r] >> j & 1) {
#pragma unroll
                for (int d = 0; d < D; d++) x.o[r][d] = fma_(w[r], e[d], x.o[r][d]);
            }
    }
}

/* What the warp's queries see: all of them see [begin, end), none anything outside [first, last). */
struct reach {
    uint32_t begin, end, first, last;
};

template <int R> __device__ static inline struct reach reach_of(const uint2 *seen, uint32_t rows)
{
    struct reach x = {0, ~0u, ~0u, 0};
    const uint32_t warp = threadIdx.x / CUDA_WARP * 4 * R;
    for (uint32_t r = warp; r < min(warp + 4 * R, rows); r++) {
        x.begin = max(x.begin, seen[r].x), x.end = min(x.end, seen[r].y);
        x.first = min(x.first, seen[r].x), x.last = max(x.last, seen[r].y);
    }
    return x;
}

/* The keys of the block at @pos that the lane's queries see. */
template <int R> __device__ static inline void masks(const uint2 *seen, uint32_t pos, uint32_t shift, uint32_t mask[R])
{
#pragma unroll
    for (int r = 0; r < R; r++) {
        uint32_t lo, hi;
        visible(seen[r].x, seen[r].y, pos, lo, hi);
        mask[r] = lo < hi ? (ALL << lo & ALL >> (CUDA_WARP - hi)) >> shift : 0;
    }
}

/* Softmax and output of the block at @pos, from the scores @s of the lane. */
template <int R, int D, bool CAP>
__device__ static inline void attend(const struct cuda_attn &a, struct room<R, D> &at, struct lane_of<R, D> &x,
                                     const struct reach &y, uint32_t pos, float s[R][4])
{
    const uint32_t lane = key_lane(), warp = threadIdx.x / CUDA_WARP, row = warp * 4 * R + query_lane() * R;
    const bool all = __all_sync(ALL, y.begin <= pos && y.end >= pos + CUDA_WARP);
    uint32_t mask[R], lo, hi;
    float c[R];
    if (all && !CAP && D != 16 && is_even(a.scale)) { /* that of 128 dims is none, as a rule */
        weigh<R, D, CAP, true, true>(a, x, s, mask, at.p[warp], c);
    } else if (all) {
        weigh<R, D, CAP, true, false>(a, x, s, mask, at.p[warp], c);
    } else {
        masks<R>(&at.seen[row], pos, lane, mask);
        weigh<R, D, CAP, false, false>(a, x, s, mask, at.p[warp], c);
    }
    __syncwarp();
    if (!all) masks<R>(&at.seen[row], pos, 0, mask);
    visible(y.first, y.last, pos, lo, hi);
    add_values<R, D>(x, at.p[warp], &at.v[0][lane * 4], c, mask, all, lo, hi);
}

/* Copy the queries of a tile and what they see. Those behind the last see nothing. */
template <int R, int D>
__device__ static inline void load(const struct cuda_attn &a, const struct cuda_tile &t, struct room<R, D> &to)
{
    constexpr uint32_t rows = room<R, D>::rows, threads = THREADS / rows; /* of a row */
    const uint32_t row = threadIdx.x % rows, from = min(row, t.n * a.group - 1);
    const struct cuda_seen s = a.seen[t.token + from / a.group];
    const uint64_t head = (uint64_t)(t.token + from / a.group) * a.heads + head_of(a) * a.group + from % a.group;
    const float *q = (t.sinks ? a.q_sinks : a.q) + head * a.dim;
    for (uint32_t d = threadIdx.x / rows * 4; d < a.dim; d += threads * 4) {
        const float4 x = *(const float4 *)(q + d);
        to.q[d][row] = x.x, to.q[d + 1][row] = x.y, to.q[d + 2][row] = x.z, to.q[d + 3][row] = x.w;
    }
    if (threadIdx.x < rows) to.seen[row] = make_uint2(begin_of(t, s), from < row ? 0 : end_of(t, s));
    __syncthreads();
}

template <int R, int D>
__device__ static inline void store(const struct cuda_attn &a, const struct cuda_tile &t, const struct lane_of<R, D> &x)
{
    const uint32_t lane = key_lane(), first = threadIdx.x / CUDA_WARP * 4 * R + query_lane() * R;
#pragma unroll
    for (int r = 0; r < R; r++) {
        const uint32_t row = first + r;
        if (row >= t.n * a.group) break;
        const struct cuda_seen &s = a.seen[t.token + row / a.group];
        if (t.part >= s.parts) continue;
        const uint64_t to = (uint64_t)(s.row + t.part) * a.heads + head_of(a) * a.group + row % a.group;
        if (lane == r * (8 / R)) a.m[to] = x.m, a.l[to] = x.l;
#pragma unroll
        for (int d = 0; d < D; d += 4)
            if (d * 8 + lane * 4 < a.dim)
                *(float4 *)(a.o + to * a.dim + d * 8 + lane * 4) =
                    make_float4(x.o[r][d], x.o[r][d + 1], x.o[r][d + 2], x.o[r][d + 3]);
    }
}

/* The KV block at @pos of a tile. */
__device__ static inline const uint8_t *block_at(const struct cuda_attn &a, const struct cuda_tile &t, uint32_t pos)
{
    return kv_block(a.kv, a.table[t.table + pos / CUDA_WARP], head_of(a));
}

/* The tile's blocks, one after another. */
template <int type, int R, int D, bool CAP>
__device__ static inline void attend_all(const struct cuda_attn &a, const struct cuda_tile &t, struct room<R, D> &at,
                                         struct lane_of<R, D> &x)
{
    const uint32_t dim = a.dim;
    const struct reach y = reach_of<R>(at.seen, t.n * a.group);
    const uint32_t row = threadIdx.x / CUDA_WARP * 4 * R + query_lane() * R;
    struct part<type, D> part;
    read_part<type, D, false>(block_at(a, t, t.from), dim, part);
    put_keys<type, D>(part, dim, at.k);
    read_part<type, D, true>(block_at(a, t, t.from) + a.kv.half, dim, part);
    put_values<type, D>(part, dim, at.v);
    __syncthreads();
    for (uint32_t pos = t.from; pos < t.to; pos += CUDA_WARP) {
        const bool any = __any_sync(ALL, y.first < pos + CUDA_WARP && y.last > pos), more = pos + CUDA_WARP < t.to;
        const uint8_t *next = more ? block_at(a, t, pos + CUDA_WARP) : NULL;
        float s[R][4];
        if (more) read_part<type, D, false>(next, dim, part);
        if (any) multiply<R, D>(at, row, dim, s);
        __syncthreads(); /* all have read K, and the last weights; V has arrived */
        if (more) put_keys<type, D>(part, dim, at.k);
        if (more) read_part<type, D, true>(next + a.kv.half, dim, part);
        if (any) attend<R, D, CAP>(a, at, x, y, pos, s);
        if (!more) break;
        __syncthreads(); /* all have read V; K has arrived */
        put_values<type, D>(part, dim, at.v);
    }
}

template <int type, int R, int D, bool CAP> __device__ static inline void attention(const struct cuda_attn &a)
{
    extern __shared__ float4 shared[];
    struct room<R, D> &at = *(struct room<R, D> *)shared;
    static_assert(sizeof(at) == CUDA_ATTN_SHARED(at.rows, 8 * D), "the host knows the size");
    const struct cuda_tile t = a.tiles[blockIdx.x / a.kv_heads];
    if (!t.n) return;
    load(a, t, at);
    struct lane_of<R, D> x = {
        NOTHING, 0.0f,
        {
        }
    };
    attend_all<type, R, D, CAP>(a, t, at, x);
    store(a, t, x);
}

#define ATTENTION(name, type, R, D, cap, ctas)                                                                         \
    extern "C" __global__ void __launch_bounds__(THREADS, ctas) name(const __grid_constant__ struct cuda_attn a)       \
    {                                                                                                                  \
        begin();                                                                                                       \
        attention<type, R, D, cap>(a);                                                                                 \
    }
#define SIZES(name, type)                                                                                              \
    ATTENTION(cuda_attn_many_##name##_64, type, 8, 8, false, 3)                                                        \
    ATTENTION(cuda_attn_many_##name##_128, type, 4, 16, false, 3)                                                      \
    ATTENTION(cuda_attn_some_##name##_64, type, 2, 8, false, 5)                                                        \
    ATTENTION(cuda_attn_some_##name##_128, type, 2, 16, false, 3)                                                      \
    ATTENTION(cuda_attn_some_##name##_256, type, 2, 32, false, 2)                                                      \
    ATTENTION(cuda_attn_capped_##name##_64, type, 2, 8, true, 4)                                                       \
    ATTENTION(cuda_attn_capped_##name##_128, type, 2, 16, true, 3)                                                     \
    ATTENTION(cuda_attn_capped_##name##_256, type, 2, 32, true, 2)
SIZES(f32, KV_F32)
SIZES(f16, KV_F16)
SIZES(q8, KV_Q8)

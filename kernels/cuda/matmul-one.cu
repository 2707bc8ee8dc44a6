/* SPDX-License-Identifier: MIT */
/*
 * Products of quantized types with one token, the norm before them, and the activation behind them. A CTA computes
 * every gridDim-th panel, or pair of panels of up and gate. Bulk copies bring the weights in pieces into a ring in
 * shared memory, the first ones while the kernels before still run. The warps share the blocks of a piece and leave the
 * exact sum of each row and block; then a thread of each row adds them in their order. Grid: up to one CTA of
 * CUDA_ONE_THREADS for each multiprocessor; shared memory: fit_one() of daemon/backend/cuda/products.c. Of sm_90 alone.
 */
#include "kernels/cuda/one-input.cuh"
#include "kernels/cuda/ring.cuh"

#define WARPS (CUDA_ONE_THREADS / CUDA_WARP)

/* The sum of a row and block with its factor, and the second such pair of types with an offset. */
template <bool M> struct terms {
    float2 v;
};
template <> struct terms<true> {
    float4 v;
};

/* What lies in shared memory. */
struct inside {
    struct input in;
    uint8_t *ring;  /* [slots][slot bytes] */
    uint8_t *terms; /* [wave][k / 32][16] struct terms; before that two rows of a norm */
};

/* The CTA's share: panels in parts of CUDA_PIECE blocks. */
struct share {
    uint32_t blocks, parts, panels;
};

/* A piece: part @part of the CTA's panel @i, in slot @slot; @odd: of the slot's uses. */
struct cursor {
    uint32_t i, part, slot, odd;
};

__device__ static inline void advance(const struct share &s, uint32_t slots, struct cursor &c)
{
    if (++c.part == s.parts) c.part = 0, c.i++;
    if (++c.slot == slots) c.slot = 0, c.odd ^= 1;
}

__device__ static inline struct share share_of(const struct cuda_one &a)
{
    const uint32_t all = a.gated.f ? a.m.panels / 2 : a.m.panels, own = (all - blockIdx.x + gridDim.x - 1) / gridDim.x;
    struct share s;
    s.blocks = a.m.k / CUDA_WARP;
    s.parts = (s.blocks + CUDA_PIECE - 1) / CUDA_PIECE;
    s.panels = a.gated.f ? 2 * own : own;
    return s;
}

/* The number of the CTA's panel @i. */
__device__ static inline uint32_t panel_of(const struct cuda_one &a, uint32_t i)
{
    if (!a.gated.f) return blockIdx.x + i * gridDim.x;
    return i % 2 * a.m.of[1].panel0 + blockIdx.x + i / 2 * gridDim.x;
}

__device__ static inline struct inside inside_of(const struct cuda_one &a)
{
    extern __shared__ uint8_t shared[];
    const uint32_t nb = a.m.k / CUDA_WARP;
    struct inside x;
    x.in.q = (uint32_t *)shared;
    x.in.d = (float2 *)(x.in.q + nb * 8);
    x.in.s = (short2 *)(x.in.d + nb);
    x.ring = shared + a.ring.from;
    x.terms = x.ring + a.ring.slots * a.ring.slot_bytes;
    return x;
}

__device__ static inline void fetch(const struct cuda_one &a, const struct inside &x, const struct cursor &c)
{
    ring_fetch(a.m, panel_of(a, c.i), c.part, x.ring + c.slot * a.ring.slot_bytes, c.slot);
}

/* --- sums --- */

__device__ static inline int dot4(uint32_t w, uint32_t q, int sum, bool wide)
{
    if (!wide) return __dp4a((int)w, (int)q, sum);
    asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(w), "r"(q));
    return sum;
}

/* The lane's part of the isum of a block, apart from the codes' bias: of half the columns of row lane % 16. */
template <int W, int S, bool M, bool T>
__device__ static inline int part(const struct cuda_form &f, const struct place &p, const uint32_t *q)
{
    const uint32_t row = threadIdx.x % CUDA_ROWS, h = threadIdx.x % CUDA_WARP / CUDA_ROWS;
    const uint4 x = *(const uint4 *)(q + 4 * h);
    int first = 0, last = 0;
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t t = h + 2 * i;
        const struct pair c = decode_unsigned<W>(read_raw<W, true>(f, p.codes, row, t), t);
        first = dot4(T ? look_up(f.table, c.lo) : c.lo, i ? x.z : x.x, first, W == 8);
        last = dot4(T ? look_up(f.table, c.hi) : c.hi, i ? x.w : x.y, last, W == 8);
    }
    if (S != HALVES) return first + last;
    const struct scale s = scale_of<S, M, true>(f, p, row);
    return s.sub[0] * first + s.sub[1] * last;
}

/* The terms of row lane % 16 and block @b, whose place is @p, from the sum of its parts. */
template <int S, bool M, bool T>
__device__ static inline terms<M> terms_of(const struct cuda_form &f, const struct place &p, const struct input &x,
                                           uint32_t b, int sum)
{
    const struct scale s = scale_of<S, M, true>(f, p, threadIdx.x % CUDA_ROWS);
    const float2 d = x.d[b];
    const short2 q = x.s[b];
    struct terms<M> t;
    if (!T && !M) sum -= f.bias * (S == HALVES ? s.sub[0] * q.x + s.sub[1] * q.y : q.x + q.y);
    t.v.x = (float)sum, t.v.y = s.d * d.x;
    if constexpr (M) {
        t.v.z = S == HALVES ? (float)(s.min[0] * q.x + s.min[1] * q.y) : s.m;
        t.v.w = S == HALVES ? s.m * d.x : d.y;
    }
    return t;
}

/* The lane's sum, apart from the bias: of the block whose place is @p, or for the upper lanes of the next one, if there
 * is (@more 1). */
template <int W, int S, bool M, bool T>
__device__ static inline int sum_of(const struct cuda_form &f, const struct place &p, const uint32_t *q, uint32_t more)
{
    const bool second = threadIdx.x % CUDA_WARP >= CUDA_ROWS;
    const int c = part<W, S, M, T>(f, p, q), e = part<W, S, M, T>(f, within(f, p, more), q + more * 8);
    return (second ? e : c) + __shfl_xor_sync(ALL, second ? c : e, CUDA_ROWS);
}

/* The terms of a piece, whose blocks each warp takes two by two. @out: of the panel. */
template <int W, int S, bool M, bool T>
__device__ static inline void add_piece(const struct cuda_one &a, const struct share &s, const struct inside &x,
                                        const struct cursor &c, struct terms<M> *out)
{
    constexpr uint32_t pairs = CUDA_PIECE / 2 / WARPS;
    const struct cuda_form &f = a.m.form;
    const uint32_t from = c.part * CUDA_PIECE, n = min((uint32_t)CUDA_PIECE, s.blocks - from);
    const uint32_t first = threadIdx.x / CUDA_WARP * 2, second = threadIdx.x % CUDA_WARP / CUDA_ROWS;
    struct place p = place_of(f, x.ring + c.slot * a.ring.slot_bytes, first);
    out += (from + first) * CUDA_ROWS + threadIdx.x % CUDA_WARP;
    if (n == CUDA_PIECE) {
        int sum[pairs];
#pragma unroll
        for (uint32_t j = 0; j < pairs; j++)
            sum[j] = sum_of<W, S, M, T>(f, beyond(f, p, j * 2 * WARPS), x.in.q + (from + first + j * 2 * WARPS) * 8, 1);
        p = within(f, p, second);
#pragma unroll
        for (uint32_t j = 0; j < pairs; j++)
            out[j * 2 * WARPS * CUDA_ROWS] =
                terms_of<S, M, T>(f, beyond(f, p, j * 2 * WARPS), x.in, from + first + second + j * 2 * WARPS, sum[j]);
        return;
    }
    for (uint32_t b = first; b < n; b += 2 * WARPS, out += 2 * WARPS * CUDA_ROWS, p = beyond(f, p, 2 * WARPS)) {
        const uint32_t more = b + 1 < n, own = second && more;
        const int sum = sum_of<W, S, M, T>(f, p, x.in.q + (from + b) * 8, more);
        const struct terms<M> t = terms_of<S, M, T>(f, within(f, p, own), x.in, from + b + own, sum);
        if (!second || more) *out = t;
    }
}

/* --- chains --- */

template <bool M> __device__ static inline float add_terms(const struct terms<M> &t, float acc)
{
    acc = fma_(t.v.x, t.v.y, acc);
    if constexpr (M) acc = fma_(t.v.z, t.v.w, acc);
    return acc;
}

template <bool M> __device__ static inline float chain(const struct terms<M> *t, uint32_t blocks)
{
    constexpr uint32_t batch = M ? 4 : 8;
    const uint32_t whole = blocks / batch;
    float acc = 0.0f;
    struct terms<M> v[batch], next[batch];
    const struct terms<M> *at = t;
#pragma unroll
    for (uint32_t n = 0; n < batch; n++)
        if (whole) v[n] = at[n * CUDA_ROWS];
#pragma unroll 2
    for (uint32_t b = 0; b < whole; b++) {
        if (b + 1 < whole) at += batch * CUDA_ROWS;
#pragma unroll
        for (uint32_t n = 0; n < batch; n++) next[n] = at[n * CUDA_ROWS];
#pragma unroll
        for (uint32_t n = 0; n < batch; n++) acc = add_terms<M>(v[n], acc);
#pragma unroll
        for (uint32_t n = 0; n < batch; n++) v[n] = next[n];
    }
    for (uint32_t b = whole * batch; b < blocks; b++) acc = add_terms<M>(t[b * CUDA_ROWS], acc);
    return acc;
}

/* Of the panels [first, first + n) of the CTA. */
template <bool M>
__device__ static inline void chains(const struct cuda_one &a, const struct share &s, const struct terms<M> *t,
                                     uint32_t first, uint32_t n)
{
    for (uint32_t i = threadIdx.x; i < n * CUDA_ROWS; i += CUDA_ONE_THREADS) {
        const uint32_t p = i / CUDA_ROWS, r = i % CUDA_ROWS, panel = panel_of(a, first + p);
        const struct cuda_matrix &m = a.m.of[product_of(a.m, panel)];
        const uint32_t row = (panel - m.panel0) * CUDA_ROWS + r;
        const float acc = chain<M>(t + p * s.blocks * CUDA_ROWS + r, s.blocks);
        if (!a.gated.f) {
            if (row < m.rows) m.out[row] = acc;
            continue;
        }
        const float gate = __shfl_xor_sync(ALL, acc, CUDA_ROWS);
        if (p % 2 == 0 && row < m.rows) a.gated.f[row] = gated(a.gated, a.gated.act, gate, acc, row);
    }
}

/* The sums and chains. @next: the first piece that has not been fetched. */
template <int W, int S, bool M, bool T>
__device__ static inline void multiply(const struct cuda_one &a, const struct share &s, const struct inside &x,
                                       struct cursor next)
{
    struct terms<M> *t = (struct terms<M> *)x.terms;
    struct cursor c = {0, 0, 0, 0};
    for (uint32_t first = 0; first < s.panels; first += a.wave) {
        const uint32_t n = min(a.wave, s.panels - first);
        if (first) __syncthreads();
        while (c.i < first + n) {
            bar_wait(&full[c.slot], c.odd);
            add_piece<W, S, M, T>(a, s, x, c, t + (c.i - first) * s.blocks * CUDA_ROWS);
            if (next.i < s.panels) {
                if (ring_release(c.slot, c.odd, WARPS)) fetch(a, x, next);
                advance(s, a.ring.slots, next);
            }
            advance(s, a.ring.slots, c);
        }
        __syncthreads();
        chains<M>(a, s, t, first, n);
    }
}

template <int W, int S, bool M, bool T> __device__ static inline void one(const struct cuda_one &a)
{
    const struct share s = share_of(a);
    const struct inside x = inside_of(a);
    struct cursor next = {0, 0, 0, 0};
    if (threadIdx.x == 0) ring_init(a.ring, WARPS);
    for (uint32_t i = 0; i < a.ring.slots && next.i < s.panels; i++, advance(s, a.ring.slots, next))
        if (threadIdx.x == 0) fetch(a, x, next);
    struct eight w;
    if (a.norm.x) w = read_eight(a.norm.w, threadIdx.x, a.m.k);
    wait_before();
    if (a.norm.x)
        put_norm(a.norm, w, x.in, (float *)x.terms);
    else if (a.row)
        put_row(a.row, a.m.k, x.in);
    else
        copy_codes(a.m.x, s.blocks, x.in);
    __syncthreads();
    multiply<W, S, M, T>(a, s, x, next);
}

#define ONE(name, width, scales, offset, table)                                                                        \
    extern "C" __global__ void __launch_bounds__(CUDA_ONE_THREADS, 2)                                                  \
        cuda_one_##name(const __grid_constant__ struct cuda_one a)                                                     \
    {                                                                                                                  \
        start_next();                                                                                                  \
        touch(a);                                                                                                      \
        one<width, scales, offset, table>(a);                                                                          \
    }
KINDS(ONE)

/* SPDX-License-Identifier: MIT */
/* Recurrent layers, in the order of kernels/ref/recurrent.c. The state of a run is computed token by token by one CTA
 * for each head; channels of the convolution are independent of each other. */
#include "kernels/cuda/norms.cuh"
#include "kernels/cuda/state-args.h"

__device__ static inline float softplus(float x)
{
    const float odd[] = {SOFTPLUS_13, SOFTPLUS_11, SOFTPLUS_9, SOFTPLUS_7, SOFTPLUS_5, SOFTPLUS_3};
    const float e = exp_(-fabsf(x)), s = e / (2.0f + e), z = s * s;
    float p = SOFTPLUS_15;
#pragma unroll
    for (int j = 0; j < 6; j++) p = fma_(p, z, odd[j]);
    const float half = fma_(s, p * z, s);
    return (x > 0.0f ? x : 0.0f) + (half + half);
}

/* --- convolution --- */

__device__ static inline float *state_of(const struct cuda_states &s, uint32_t block)
{
    return s.mem + block * s.stride;
}

/* Input number @i of channel @c among the last inputs before the run, then its own. */
__device__ static inline float input_of(const struct cuda_conv &a, const struct cuda_run &r, uint32_t c, uint32_t i)
{
    const uint32_t before = a.taps - 1;
    if (i < before) return r.fresh ? 0.0f : state_of(a.s, r.block)[(uint64_t)i * a.channels + c];
    const uint64_t at = (uint64_t)(r.row + i - before) * a.ld + c;
    return a.by ? a.x[at] * a.by[at] : a.x[at];
}

extern "C" __global__ void cuda_conv(const __grid_constant__ struct cuda_conv a)
{
    begin();
    const uint32_t c = blockIdx.x * blockDim.x + threadIdx.x, token = blockIdx.y;
    if (c >= a.channels) return;
    const struct cuda_run r = a.s.runs[a.run_of[token]];
    float acc = 0.0f;
    for (uint32_t j = 0; j < a.taps; j++)
        acc = fma_(a.w[(uint64_t)j * a.channels + c], input_of(a, r, c, token - r.row + j), acc);
    if (a.bias) acc = acc + a.bias[c];
    if (a.silu) acc = silu(acc);
    if (a.gate) acc = a.gate[(uint64_t)token * a.ld + c] * acc;
    a.out[(uint64_t)token * a.channels + c] = acc;
}

extern "C" __global__ void cuda_conv_keep(const __grid_constant__ struct cuda_conv a)
{
    begin();
    const uint32_t c = blockIdx.x * blockDim.x + threadIdx.x, before = a.taps - 1;
    if (c >= a.channels) return;
    const struct cuda_run r = a.s.runs[blockIdx.y];
    float last[CUDA_TAPS];
    for (uint32_t i = 0; i < before; i++) last[i] = input_of(a, r, c, r.n + i);
    for (uint32_t i = 0; i < r.n_saves; i++) {
        const struct cuda_save s = a.s.saves[r.save + i];
        float *to = state_of(a.s, s.block) + c;
        for (uint32_t j = 0; j < before; j++) to[(uint64_t)j * a.channels] = input_of(a, r, c, s.n + j);
    }
    for (uint32_t j = 0; j < before; j++) state_of(a.s, r.block)[(uint64_t)j * a.channels + c] = last[j];
}

/* --- scans --- */

/* Value @i of column @p of a state of @rows rows, in memory. */
__device__ static inline uint64_t place_of(uint32_t p, uint32_t i, uint32_t rows)
{
    return (uint64_t)(p / CUDA_ROWS) * CUDA_ROWS * rows + i * CUDA_ROWS + p % CUDA_ROWS;
}

/* The thread's column of the head's state, in shared memory [rows][dim]; from memory, or 0. */
__device__ static inline void load_column(const struct cuda_states &s, const struct cuda_run &r, uint64_t head,
                                          uint32_t rows, uint32_t dim, float *column)
{
    for (uint32_t i = 0; i < rows; i++)
        column[i * dim] = r.fresh ? 0.0f : state_of(s, r.block)[head + place_of(threadIdx.x, i, rows)];
}

__device__ static inline void store_column(const struct cuda_states &s, uint32_t block, uint64_t head, uint32_t rows,
                                           uint32_t dim, const float *column)
{
    for (uint32_t i = 0; i < rows; i++) state_of(s, block)[head + place_of(threadIdx.x, i, rows)] = column[i * dim];
}

extern "C" __global__ void cuda_ssm(const __grid_constant__ struct cuda_ssm a)
{
    begin();
    extern __shared__ float shared[];
    const struct cuda_run r = a.s.runs[blockIdx.y];
    const uint32_t head = blockIdx.x, p = threadIdx.x, group = head / (a.heads / a.groups), all = a.heads * a.dim;
    const uint64_t at = (uint64_t)head * a.rows * a.dim;
    float *column = shared + p;
    if (p >= a.dim) return;
    load_column(a.s, r, at, a.rows, a.dim, column);
    for (uint32_t t = 0, saved = 0; t < r.n; t++) {
        const float *x = a.x + (uint64_t)(r.row + t) * a.channels, *b = x + all + group * a.rows;
        const float *c = b + a.groups * a.rows, own = x[head * a.dim + p];
        const float dt = softplus(a.dt[(uint64_t)(r.row + t) * a.ld_dt + head] + a.dt_bias[head]);
        const float decay = exp_(dt * a.a[head]), u = own * dt;
        float y[2] = {0.0f, 0.0f};
        for (uint32_t i = 0; i < a.rows; i++) {
            const float s = fma_(b[i], u, column[i * a.dim] * decay);
            column[i * a.dim] = s;
            y[i % 2] = fma_(c[i], s, y[i % 2]);
        }
        a.y[(uint64_t)(r.row + t) * all + head * a.dim + p] = fma_(own, a.d[head], y[0] + y[1]);
        if (saved < r.n_saves && a.s.saves[r.save + saved].n == t + 1)
            store_column(a.s, a.s.saves[r.save + saved++].block, at, a.rows, a.dim, column);
    }
    store_column(a.s, r.block, at, a.rows, a.dim, column);
}

/* Read @k values and divide them by their length, times @scale: in shared memory, by all threads. */
__device__ static inline void read_unit(const struct row &to, const float *from, float eps, float scale)
{
    for (uint32_t i = threadIdx.x; i < to.k; i += blockDim.x) to.x[i] = from[i];
    const float length = sqrtf(sum_of<true>(to, 0.0f)), by = scale / (length > eps ? length : eps);
    for (uint32_t i = threadIdx.x; i < to.k; i += blockDim.x) to.x[i] = to.x[i] * by;
    __syncthreads();
}

/* One token in one column. */
__device__ static inline float delta(float *column, const float *q, const float *k, uint32_t dim, float v, float decay,
                                     float beta)
{
    float u[2] = {0.0f, 0.0f}, o = 0.0f;
    for (uint32_t i = 0; i < dim; i++) u[i % 2] = fma_(k[i], column[i * dim], u[i % 2]);
    const float d = (v - (u[0] + u[1]) * decay) * beta;
    for (uint32_t i = 0; i < dim; i++) {
        const float s = fma_(k[i], d, column[i * dim] * decay);
        column[i * dim] = s;
        o = fma_(q[i], s, o);
    }
    return o;
}

extern "C" __global__ void cuda_delta(const __grid_constant__ struct cuda_delta a)
{
    begin();
    extern __shared__ float shared[];
    const struct cuda_run r = a.s.runs[blockIdx.y];
    const uint32_t head = blockIdx.x, p = threadIdx.x, dim = a.dim, each = a.heads / a.key_heads;
    const uint32_t key = a.alpha ? head % a.key_heads : head / each, keys = a.key_heads * dim;
    const uint32_t mixed = head / each * 2 * each + head % each;
    const uint64_t at = (uint64_t)head * dim * dim;
    float *state = shared, *q = state + dim * dim, *k = q + dim + 1;
    if (p < dim) load_column(a.s, r, at, dim, dim, state + p);
    for (uint32_t t = 0, saved = 0; t < r.n; t++) {
        const uint64_t token = r.row + t;
        const float *x = a.x + token * a.channels, *b = a.beta + token * a.ld_beta;
        read_unit({q + 1, q, dim}, x + key * dim, a.eps, a.scale);
        read_unit({k + 1, k, dim}, x + keys + key * dim, a.eps, 1.0f);
        const float alpha = a.alpha ? a.alpha[token * a.ld_alpha + head] : b[mixed + each];
        const float beta = 1.0f / (1.0f + exp_(-b[a.alpha ? head : mixed]));
        const float decay = exp_(softplus(alpha + a.dt_bias[head]) * a.a[head]);
        if (p < dim)
            a.o[(token * a.heads + head) * dim + p] =
                delta(state + p, q + 1, k + 1, dim, x[2 * keys + head * dim + p], decay, beta);
        __syncthreads(); /* all have read q and k */
        if (saved < r.n_saves && a.s.saves[r.save + saved].n == t + 1) {
            if (p < dim) store_column(a.s, a.s.saves[r.save + saved].block, at, dim, dim, state + p);
            saved++;
        }
    }
    if (p < dim) store_column(a.s, r.block, at, dim, dim, state + p);
}

/* --- the output --- */

extern "C" __global__ void cuda_state_out(const __grid_constant__ struct cuda_state_out a)
{
    begin();
    extern __shared__ float shared[];
    float *x = shared + 1;
    const uint64_t token = a.list ? a.list[blockIdx.x] : blockIdx.x;
    for (uint32_t i = threadIdx.x; i < a.k; i += blockDim.x) {
        const float v = a.out[token * a.k + i];
        x[i] = a.kind == CUDA_OUT_MAMBA ? silu(a.z[token * a.ld + i]) * v : v;
    }
    for (uint32_t g = 0; a.kind != CUDA_OUT_PLAIN && a.w && g < a.k; g += a.each) {
        const float by = rms_of({x + g, shared, a.each}, a.eps);
        for (uint32_t i = threadIdx.x; i < a.each; i += blockDim.x)
            x[g + i] = x[g + i] * by * a.w[a.kind == CUDA_OUT_MAMBA ? g + i : i];
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < a.k; i += blockDim.x) {
        if (a.kind == CUDA_OUT_DELTA) x[i] = silu(a.z[token * a.ld + i]) * x[i];
        if (a.f) a.f[(uint64_t)blockIdx.x * a.k + i] = x[i];
    }
    if (a.q.q) quantize_row(a.q, blockIdx.x, {x, shared, a.k});
}

extern "C" __global__ void cuda_state_copy(const __grid_constant__ struct cuda_state_copy a)
{
    begin();
    const uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < a.n) a.to[i] = a.from[i];
}

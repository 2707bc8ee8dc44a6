/* SPDX-License-Identifier: MIT */
/*
 * Products of F32, F16 and BF16 weights with f32 activations: one chain over all columns for each output. A CTA has a
 * panel and 16 tokens, a thread for each output; the panel ([k][16]) and the activations pass through shared memory.
 * Grid: (panels, tokens / 16), rounded up; 256 threads.
 */
#include "kernels/cuda/float.cuh"

#define FLOATS(type)                                                                                                   \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                              \
        cuda_float_##type(const __grid_constant__ struct cuda_matmul a)                                                \
    {                                                                                                                  \
        begin();                                                                                                       \
        product<type>(a, blockIdx.y * TOKENS, a.n, 0);                                                                 \
    }
FLOATS(f32)
FLOATS(f16)
FLOATS(bf16)

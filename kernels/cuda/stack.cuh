/* SPDX-License-Identifier: MIT */
#pragma once
/* Matrices of experts, one behind the other: the panels of matrix number e of a stack follow those of e - 1. */
#include "kernels/cuda/cuda-args.h"

/* Panels of a matrix. */
__device__ static inline uint64_t stack_of(const struct cuda_matrix &m)
{
    return (m.rows + CUDA_ROWS - 1) / CUDA_ROWS;
}

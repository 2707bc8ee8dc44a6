/* SPDX-License-Identifier: MIT */
/* K-quants with one sub-scale and one minimum per 32 columns. */
#include "kernels/x86/avx512-matmul.h"

MATMUL(Q4_K, q4_k)

MATMUL(Q5_K, q5_k)

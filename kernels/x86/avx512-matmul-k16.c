/* SPDX-License-Identifier: MIT */
/* K-quants with one sub-scale per 16 columns. */
#include "kernels/x86/avx512-matmul.h"

MATMUL(Q2_K, q2_k)

MATMUL(Q3_K, q3_k)

MATMUL(Q6_K, q6_k)

/* SPDX-License-Identifier: MIT */
#include "kernels/x86/avx512-quant.h"

KERN_MATMUL(matmul_q2_k_avx512)
{
    matmul(KERN_Q2_K, out, ld, panel, x, rows);
}

/* SPDX-License-Identifier: MIT */
#include "kernels/x86/avx512-quant.h"

KERN_MATMUL(matmul_q6_k_avx512)
{
    matmul(KERN_Q6_K, out, ld, panel, x, rows);
}

/* SPDX-License-Identifier: MIT */
#include "kernels/x86/avx512-quant.h"

KERN_MATMUL(matmul_q4_k_avx512)
{
    matmul(KERN_Q4_K, out, ld, panel, x, rows);
}

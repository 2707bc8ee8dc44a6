/* SPDX-License-Identifier: MIT */
#include "kernels/x86/avx512-quant.h"

KERN_MATMUL(matmul_q3_k_avx512)
{
    matmul(KERN_Q3_K, out, ld, panel, x, rows);
}

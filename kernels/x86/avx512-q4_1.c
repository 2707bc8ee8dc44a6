/* SPDX-License-Identifier: MIT */
#include "kernels/x86/avx512-quant.h"

KERN_MATMUL(matmul_q4_1_avx512)
{
    matmul(KERN_Q4_1, out, ld, panel, x, rows);
}

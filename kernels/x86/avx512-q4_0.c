/* SPDX-License-Identifier: MIT */
#include "kernels/x86/avx512-quant.h"

KERN_MATMUL(matmul_q4_0_avx512)
{
    matmul(KERN_Q4_0, out, ld, panel, x, rows);
}

/* SPDX-License-Identifier: MIT */
#include "kernels/x86/avx512-quant.h"

KERN_MATMUL(matmul_q5_1_avx512)
{
    matmul(KERN_Q5_1, out, ld, panel, x, rows);
}

/* SPDX-License-Identifier: MIT */
#include "kernels/x86/avx512-quant.h"

KERN_MATMUL(matmul_q5_0_avx512)
{
    matmul(KERN_Q5_0, out, ld, panel, x, rows);
}

/* SPDX-License-Identifier: MIT */
#include "kernels/x86/avx512-quant.h"

KERN_MATMUL(matmul_mxfp4_avx512)
{
    matmul(KERN_MXFP4, out, ld, panel, x, rows);
}

/* SPDX-License-Identifier: MIT */
#include "kernels/x86/avx512-quant.h"

KERN_MATMUL(matmul_iq4_nl_avx512)
{
    matmul(KERN_IQ4_NL, out, ld, panel, x, rows);
}

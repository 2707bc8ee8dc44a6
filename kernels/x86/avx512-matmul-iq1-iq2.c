/* SPDX-License-Identifier: MIT */
/* Types whose codes are digits of a codebook: 3 bits with a sign. */
#include "kernels/x86/avx512-matmul.h"

MATMUL(IQ1_S, iq1_s)

MATMUL(IQ1_M, iq1_m)

MATMUL(IQ2_XXS, iq2_xxs)

MATMUL(IQ2_S, iq2_s)

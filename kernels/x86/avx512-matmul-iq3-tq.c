/* SPDX-License-Identifier: MIT */
/* Types whose codes are digits of a codebook, 4 bits with a sign; ternary types. */
#include "kernels/x86/avx512-matmul.h"

MATMUL(IQ3_XXS, iq3_xxs)

MATMUL(IQ3_S, iq3_s)

MATMUL(TQ2_0, tq2_0)

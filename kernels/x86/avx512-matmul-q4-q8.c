/* SPDX-License-Identifier: MIT */
/* Types with one scale, and perhaps one offset, per block of 32: codes of 4 and 8 bits. */
#include "kernels/x86/avx512-matmul.h"

MATMUL(Q4_0, q4_0)

MATMUL(Q4_1, q4_1)

MATMUL(Q8_0, q8_0)

/* SPDX-License-Identifier: MIT */
/* Types with one scale, and perhaps one offset, per block of 32: codes of 5 bits. */
#include "kernels/x86/avx512-matmul.h"

MATMUL(Q5_0, q5_0)

MATMUL(Q5_1, q5_1)

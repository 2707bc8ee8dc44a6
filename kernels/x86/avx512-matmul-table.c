/* SPDX-License-Identifier: MIT */
/* Types whose codes are indices into a table of 16 values. */
#include "kernels/x86/avx512-matmul.h"

MATMUL(IQ4_NL, iq4_nl)

MATMUL(IQ4_XS, iq4_xs)

MATMUL(MXFP4, mxfp4)

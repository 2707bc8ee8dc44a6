/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The layout of a panel: 16 rows (KERN_ROWS) of k columns, in the order a matmul reads them, one contiguous stream.
 *
 * F32, F16, BF16: [k][16] values, columns ascending, the 16 rows side by side.
 *
 * Quantized types: [k/32] blocks, ascending; a block is codes, then scales (f16, as in the file):
 *
 *   Q8_0, 544 bytes:   0  u8 [8][16][4]   byte 64g + 4r + b: w[r][4g + b] + 128
 *                    512  f16 d[16]
 *   Q4_0, 288 bytes:   0  u8 [4][16][4]   byte 64g + 4r + b: low nibble w[r][4g + b] + 8, high w[r][16 + 4g + b] + 8
 *                    256  f16 d[16]
 *   Q4_1, 320 bytes:   0  u8 [4][16][4]   the same, without the 8
 *                    256  f16 d[16]
 *                    288  f16 m[16]
 *
 * So 64 bytes (for 4 bits after one mask or shift) are 16 lanes of 4 consecutive columns, the operand of vpdpbusd.
 * A panel ends padded to KERN_ALIGN; blocks of 288 and 544 bytes are therefore only 32-byte aligned within.
 */
#include "kernels/kernels.h"

#define PANEL_Q8_0    544
#define PANEL_Q8_0_D  512
#define PANEL_Q4_0    288
#define PANEL_Q4_0_D  256
#define PANEL_Q4_1    320
#define PANEL_Q4_1_D  256
#define PANEL_Q4_1_M  288
#define PANEL_Q8_BIAS 128
#define PANEL_Q4_BIAS 8

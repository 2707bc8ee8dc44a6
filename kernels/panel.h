/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The layout of a panel: 16 rows (KERN_ROWS) of k columns, in the order a matmul reads them, one contiguous stream.
 *
 * F32, F16, BF16: [k][16] values, columns ascending, the 16 rows side by side.
 *
 * Quantized types: [k/32] blocks (Q6_K: [k/256]), ascending; a block is codes, then scales (as in the file):
 *
 *   Q8_0, 544 bytes:   0  u8 [8][16][4]   byte 64g + 4r + b: w[r][4g + b] + 128
 *                    512  f16 d[16]
 *   Q4_0, 288 bytes:   0  u8 [4][16][4]   byte 64g + 4r + b: low nibble w[r][4g + b] + 8, high w[r][16 + 4g + b] + 8
 *                    256  f16 d[16]
 *   Q4_1, 320 bytes:   0  u8 [4][16][4]   the same, without the 8
 *                    256  f16 d[16]
 *                    288  f16 m[16]
 *
 *   Q6_K, 3360 bytes: eight times 32 columns, then all scales
 *     384i +   0  u8 [4][16][4]     byte 64g + 4r + b: low nibble low 4 bits of c[r][4g + b], high of c[r][16 + 4g + b]
 *     384i + 256  u8 [2][16][4]     byte 64h + 4r + b, bits 2g and 2g + 1: upper 2 bits of c[r][16h + 4g + b]
 *                                   (c[r][j]: w[r][32i + j] + 32)
 *     3072 + 32i  i8 sc[2][16]      of columns 32i … 32i + 15, and of the other 16
 *           3328  f16 d[16]
 *
 * So 64 bytes (for 4 bits after one mask or shift, for 6 after two) are 16 lanes of 4 consecutive columns, the operand
 * of vpdpbusd. A panel ends padded to KERN_ALIGN; blocks of 288, 544 and 3360 bytes are therefore only 32-byte aligned
 * within.
 */
#include "kernels/kernels.h"

#define PANEL_Q8_0    544
#define PANEL_Q8_0_D  512
#define PANEL_Q4_0    288
#define PANEL_Q4_0_D  256
#define PANEL_Q4_1    320
#define PANEL_Q4_1_D  256
#define PANEL_Q4_1_M  288
#define PANEL_Q6_K    3360
#define PANEL_Q6_K_32 384 /* codes of 32 columns */
#define PANEL_Q6_K_H  256
#define PANEL_Q6_K_SC 3072
#define PANEL_Q6_K_D  3328
#define PANEL_Q8_BIAS 128
#define PANEL_Q4_BIAS 8
#define PANEL_Q6_BIAS 32

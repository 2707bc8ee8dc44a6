/* SPDX-License-Identifier: MIT */
#pragma once
/* Decoding of GGUF's quantized blocks (ggml's ggml-common.h) into the codes and scales that a panel stores. */
#include <stdint.h>

/* One block of a file: 32 or 256 values. */
struct format_block {
    uint8_t c[256];  /* unsigned codes (panel.h), in the order of the values */
    uint8_t sub[16]; /* the panel's sub bytes: of the first 32 columns, of the next … */
    uint8_t d[2], m[2];
};

/* block_q8_0 {f16 d; i8 q[32]}: the code is q + 128. block_q4_0 {f16 d; u8 q[16]}, block_q4_1 {f16 d, m; u8 q[16]}:
 * q[j] has value j in its low nibble, value j + 16 in the high one. block_q5_0 {f16 d; u8 qh[4]; u8 q[16]}, block_q5_1
 * {f16 d, m; u8 qh[4]; u8 q[16]}: bit j of the 32-bit little-endian qh is value j's fifth. */
void format_q8_0(struct format_block *b, const uint8_t *p);
void format_q4_0(struct format_block *b, const uint8_t *p);
void format_q4_1(struct format_block *b, const uint8_t *p);
void format_q5_0(struct format_block *b, const uint8_t *p);
void format_q5_1(struct format_block *b, const uint8_t *p);

/* 256 values. Value j = 128h + 32p + l (h < 2, p < 4, l < 32) in
 * block_q2_K {u8 sc[16], qs[64]; f16 d, dmin}: qs[32h + l] from bit 2p; sc[j/16]: sub-scale, upper 4 bits minimum.
 * block_q3_K {u8 hmask[32], qs[64], sc[12]; f16 d}: qs[32h + l] from bit 2p, third bit hmask[l] bit 4h + p, minus 4;
 *   sub-scale i of 16 values: 4 bits in sc[i%8] (upper half for i >= 8), 2 in sc[8 + i%4] from bit 2(i/4), minus 32.
 * block_q4_K {f16 d, dmin; u8 sc[12], qs[128]}: qs[32(j/64) + l], low nibble where j/32 is even; sub-scale and minimum
 * i of 32 values: for i < 4 the low 6 bits of sc[i] and of sc[i+4], else low and high nibble of sc[i+4] with the upper
 * 2 bits of sc[i-4] and of sc[i] above them. block_q5_K {f16 d, dmin; u8 sc[12], qh[32], qs[128]}: the same, and bit
 * j/32 of qh[l] is the fifth. block_q6_K {u8 ql[128], qh[64]; i8 sc[16]; f16 d}: low 4 bits in ql[64h + 32(p%2) + l]
 * (low nibble for p < 2), upper 2 in qh[32h + l] from bit 2p, minus 32; sub-scale sc[j/16]. */
void format_q2_k(struct format_block *b, const uint8_t *p);
void format_q3_k(struct format_block *b, const uint8_t *p);
void format_q4_k(struct format_block *b, const uint8_t *p);
void format_q5_k(struct format_block *b, const uint8_t *p);
void format_q6_k(struct format_block *b, const uint8_t *p);

/* Codes are numbers of values in a table. block_iq4_nl {f16 d; u8 q[16]} as Q4_0. block_iq4_xs {f16 d; u16 sh; u8
 * sl[4], qs[128]}: 32 values as in IQ4_NL have 16 bytes of qs; sub-scale i of 32 values: 4 bits in sl[i/2] (upper half
 * for odd i), 2 in sh from bit 2i, minus 32. block_mxfp4 {u8 e; u8 q[16]}: the scale is 2^(e - 127), here with e - 128
 * because the table has twice E2M1's values; 255 (NaN in OCP's text) is 2^127, as it is to ggml. */
void format_iq4_nl(struct format_block *b, const uint8_t *p);
void format_iq4_xs(struct format_block *b, const uint8_t *p);
void format_mxfp4(struct format_block *b, const uint8_t *p);

/* 256 values, whose codes are -1, 0, 1 plus 1. block_tq1_0 {u8 qs[48], qh[4]; f16 d}: byte j is five digits of base 3
 * of the values j, j + 32 … (qs[0..31]), then of groups of 16 (qs[32..47]), then four digits of groups of 4 (qh): digit
 * n is the integer part of 3 times the fraction byte * 3^n / 256. block_tq2_0 {u8 qs[64]; f16 d}: 2 bits, as Q2_K. */
void format_tq1_0(struct format_block *b, const uint8_t *p);
void format_tq2_0(struct format_block *b, const uint8_t *p);

/* 256 values, 8 of which are an entry of a codebook (codebook.h); of IQ3 two entries of 4. A sub-scale s in the file
 * stands for 2s + 1.
 * block_iq1_s {f16 d; u8 qs[32]; u16 qh[8]}: 32 values are entries qs[4i + g] with the 3 bits of qh[i] from bit 3g
 * above them; s from bit 12; bit 15: all values are 1/8 less, else 1/8 more. block_iq1_m {u8 qs[32], qh[16]; u16
 * sc[4]}: entry g has 3 bits of qh[g/2] (from bit 4(g%2)) above qs[g], and the fourth bit says 1/8 less; s of 16 values
 * from bit 3(i%4) of sc[i/4]; the upper 4 bits of sc are d. block_iq2_xxs {f16 d; {u8 q[4]; u32 u} [8]}: entries q; 7
 * signs of entry g in u from bit 7g, the eighth makes their number even; s from bit 28. block_iq2_xs {f16 d; u16 q[32];
 * u8 sc[8]}: entry 9 bits, 7 signs above; s of 16 values is a nibble of sc. block_iq2_s {f16 d; u8 qs[32], signs[32],
 * qh[8], sc[8]}: 2 bits of qh[g/4] from bit 2(g%4) above qs[g]; 8 signs. block_iq3_xxs {f16 d; u8 qs[64]; u32 u[8]}: u
 * as IQ2_XXS's. block_iq3_s {f16 d; u8 qs[64], qh[8], signs[32], sc[4]}: bit n%8 of qh[n/8] above qs[n]; s of 32 values
 * is a nibble of sc. */
void format_iq1_s(struct format_block *b, const uint8_t *p);
void format_iq1_m(struct format_block *b, const uint8_t *p);
void format_iq2_xxs(struct format_block *b, const uint8_t *p);
void format_iq2_xs(struct format_block *b, const uint8_t *p);
void format_iq2_s(struct format_block *b, const uint8_t *p);
void format_iq3_xxs(struct format_block *b, const uint8_t *p);
void format_iq3_s(struct format_block *b, const uint8_t *p);

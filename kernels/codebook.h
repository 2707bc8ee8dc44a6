/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The codebooks of ggml's IQ types. An entry is 8 digits of 2 bits, or (IQ3) 4 digits of 4 bits, the first value's in
 * the low bits. A digit stands for
 *
 *   IQ1: 0, 1, -1   IQ2: 8, 25, 43   IQ3_XXS: 4, 12, 20, 28, 36, 44, 52, 62   IQ3_S: 1, 3, 5, … 15
 */
#include <stdint.h>

extern const uint16_t codebook_iq1[2048];
extern const uint16_t codebook_iq2_xxs[256], codebook_iq2_xs[512], codebook_iq2_s[1024];
extern const uint16_t codebook_iq3_xxs[256], codebook_iq3_s[512];

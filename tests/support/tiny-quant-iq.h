/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to tiny-quant*.c: one block of 256 values each. */
#include <stdint.h>

void tiny_pack_tq1_0(uint8_t *p, const float *x);
void tiny_pack_tq2_0(uint8_t *p, const float *x);
void tiny_pack_iq1_s(uint8_t *p, const float *x);
void tiny_pack_iq1_m(uint8_t *p, const float *x);
void tiny_pack_iq2_xxs(uint8_t *p, const float *x);
void tiny_pack_iq2_xs(uint8_t *p, const float *x);
void tiny_pack_iq2_s(uint8_t *p, const float *x);
void tiny_pack_iq3_xxs(uint8_t *p, const float *x);
void tiny_pack_iq3_s(uint8_t *p, const float *x);

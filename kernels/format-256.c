/* SPDX-License-Identifier: MIT */
/* Blocks of 256 values: Q2_K … Q6_K, IQ4_XS. */
#include "kernels/format.h"
#include <string.h>

void format_q2_k(struct format_block *b, const uint8_t *p)
{
    memcpy(b->sub, p, 16);
    for (unsigned j = 0; j < 256; j++) b->c[j] = p[16 + j / 128 * 32 + j % 32] >> j / 32 % 4 * 2 & 3;
    memcpy(b->d, p + 80, 2);
    memcpy(b->m, p + 82, 2);
}

void format_q3_k(struct format_block *b, const uint8_t *p)
{
    const uint8_t *sc = p + 96;
    for (unsigned j = 0; j < 256; j++) {
        unsigned low = p[32 + j / 128 * 32 + j % 32] >> j / 32 % 4 * 2 & 3;
        b->c[j] = (uint8_t)(low | (p[j % 32] >> j / 32 & 1) << 2);
    }
    for (unsigned i = 0; i < 16; i++) {
        unsigned low = sc[i % 8] >> i / 8 * 4 & 15, high = sc[8 + i % 4] >> i / 4 * 2 & 3;
        b->sub[i] = (uint8_t)((low | high << 4) - 32);
    }
    memcpy(b->d, p + 108, 2);
}

/* Sub-scales and minima of Q4_K and Q5_K, d and dmin. */
static void head(struct format_block *b, const uint8_t *p)
{
    const uint8_t *sc = p + 4;
    memcpy(b->d, p, 2);
    memcpy(b->m, p + 2, 2);
    for (unsigned i = 0; i < 4; i++) {
        b->sub[2 * i] = sc[i] & 63;
        b->sub[2 * i + 1] = sc[i + 4] & 63;
    }
    for (unsigned i = 4; i < 8; i++) {
        b->sub[2 * i] = (uint8_t)((sc[i + 4] & 15) | sc[i - 4] >> 6 << 4);
        b->sub[2 * i + 1] = (uint8_t)(sc[i + 4] >> 4 | sc[i] >> 6 << 4);
    }
}

void format_q4_k(struct format_block *b, const uint8_t *p)
{
    head(b, p);
    for (unsigned j = 0; j < 256; j++) b->c[j] = p[16 + j / 64 * 32 + j % 32] >> j / 32 % 2 * 4 & 15;
}

void format_q5_k(struct format_block *b, const uint8_t *p)
{
    head(b, p);
    for (unsigned j = 0; j < 256; j++) {
        unsigned low = p[48 + j / 64 * 32 + j % 32] >> j / 32 % 2 * 4 & 15;
        b->c[j] = (uint8_t)(low | (p[16 + j % 32] >> j / 32 & 1) << 4);
    }
}

void format_q6_k(struct format_block *b, const uint8_t *p)
{
    for (unsigned j = 0; j < 256; j++) {
        unsigned half = j / 128, part = j / 32 % 4, l = j % 32;
        unsigned low = p[64 * half + 32 * (part % 2) + l] >> part / 2 * 4 & 15;
        b->c[j] = (uint8_t)(low | (p[128 + 32 * half + l] >> 2 * part & 3) << 4);
    }
    memcpy(b->sub, p + 192, 16);
    memcpy(b->d, p + 208, 2);
}

void format_iq4_xs(struct format_block *b, const uint8_t *p)
{
    unsigned sh = p[2] | (unsigned)p[3] << 8;
    memcpy(b->d, p, 2);
    for (unsigned i = 0; i < 8; i++)
        b->sub[i] = (uint8_t)(((p[4 + i / 2] >> i % 2 * 4 & 15) | (sh >> 2 * i & 3) << 4) - 32);
    for (unsigned j = 0; j < 256; j++) b->c[j] = p[8 + j / 32 * 16 + j % 16] >> j / 16 % 2 * 4 & 15;
}

/* SPDX-License-Identifier: MIT */
/* Blocks of 32 values: Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, MXFP4. */
#include "kernels/format.h"
#include <string.h>

static void nibbles(uint8_t *c, const uint8_t *q)
{
    for (unsigned j = 0; j < 16; j++) c[j] = q[j] & 15;
    for (unsigned j = 0; j < 16; j++) c[16 + j] = q[j] >> 4;
}

void format_q8_0(struct format_block *b, const uint8_t *p)
{
    memcpy(b->d, p, 2);
    for (unsigned j = 0; j < 32; j++) b->c[j] = p[2 + j] ^ 128;
}

void format_q4_0(struct format_block *b, const uint8_t *p)
{
    memcpy(b->d, p, 2);
    nibbles(b->c, p + 2);
}

void format_q4_1(struct format_block *b, const uint8_t *p)
{
    memcpy(b->d, p, 2);
    memcpy(b->m, p + 2, 2);
    nibbles(b->c, p + 4);
}

static void fifth_bits(uint8_t *c, const uint8_t *qh)
{
    for (unsigned j = 0; j < 32; j++) c[j] |= (uint8_t)((qh[j / 8] >> j % 8 & 1) << 4);
}

void format_q5_0(struct format_block *b, const uint8_t *p)
{
    memcpy(b->d, p, 2);
    nibbles(b->c, p + 6);
    fifth_bits(b->c, p + 2);
}

void format_q5_1(struct format_block *b, const uint8_t *p)
{
    memcpy(b->d, p, 2);
    memcpy(b->m, p + 2, 2);
    nibbles(b->c, p + 8);
    fifth_bits(b->c, p + 4);
}

void format_iq4_nl(struct format_block *b, const uint8_t *p)
{
    format_q4_0(b, p);
}

void format_mxfp4(struct format_block *b, const uint8_t *p)
{
    b->sub[0] = p[0];
    nibbles(b->c, p + 1);
}

/* SPDX-License-Identifier: MIT */
/* Blocks of 256 values: TQ1_0, TQ2_0, IQ1 … IQ3. A code is a digit of a codebook with a sign above it. */
#include "kernels/codebook.h"
#include "kernels/format.h"
#include <stdbool.h>
#include <string.h>

static unsigned load16(const uint8_t *p)
{
    return p[0] | (unsigned)p[1] << 8;
}

static uint32_t load32(const uint8_t *p)
{
    return load16(p) | (uint32_t)load16(p + 2) << 16;
}

/* --- ternary --- */

/* Digit @n, of 0 … 4, of a byte that is the fraction 0.01234 in base 3, rounded up. */
static uint8_t trit(uint8_t byte, unsigned n)
{
    static const uint8_t power[] = {1, 3, 9, 27, 81};
    return (uint8_t)((uint8_t)(byte * power[n]) * 3 >> 8);
}

void format_tq1_0(struct format_block *b, const uint8_t *p)
{
    for (unsigned j = 0; j < 160; j++) b->c[j] = trit(p[j % 32], j / 32);
    for (unsigned j = 0; j < 80; j++) b->c[160 + j] = trit(p[32 + j % 16], j / 16);
    for (unsigned j = 0; j < 16; j++) b->c[240 + j] = trit(p[48 + j % 4], j / 4);
    memcpy(b->d, p + 52, 2);
}

void format_tq2_0(struct format_block *b, const uint8_t *p)
{
    for (unsigned j = 0; j < 256; j++) b->c[j] = p[j / 128 * 32 + j % 32] >> j / 32 % 4 * 2 & 3;
    memcpy(b->d, p + 64, 2);
}

/* --- IQ1 --- */

/* 8 codes: digits, all moved by 1/8 up or @down. */
static void moved(uint8_t *c, unsigned entry, bool down)
{
    for (unsigned i = 0; i < 8; i++) c[i] = (uint8_t)((codebook_iq1[entry] >> 2 * i & 3) | down << 2);
}

void format_iq1_s(struct format_block *b, const uint8_t *p)
{
    for (unsigned i = 0; i < 8; i++) {
        unsigned h = load16(p + 34 + 2 * i);
        b->sub[i] = (uint8_t)(2 * (h >> 12 & 7) + 1);
        for (unsigned g = 0; g < 4; g++)
            moved(b->c + 32 * i + 8 * g, p[2 + 4 * i + g] | (h >> 3 * g & 7) << 8, h >> 15);
    }
    memcpy(b->d, p, 2);
}

void format_iq1_m(struct format_block *b, const uint8_t *p)
{
    const uint8_t *scales = p + 48;
    unsigned d = 0;
    for (unsigned i = 0; i < 4; i++) d |= load16(scales + 2 * i) >> 12 << 4 * i;
    for (unsigned i = 0; i < 16; i++) b->sub[i] = (uint8_t)(2 * (load16(scales + i / 4 * 2) >> 3 * (i % 4) & 7) + 1);
    for (unsigned g = 0; g < 32; g++) {
        unsigned h = p[32 + g / 2] >> g % 2 * 4;
        moved(b->c + 8 * g, p[g] | (h & 7) << 8, h >> 3 & 1);
    }
    b->d[0] = (uint8_t)d;
    b->d[1] = (uint8_t)(d >> 8);
}

/* --- IQ2, IQ3 --- */

/* 7 signs; the eighth makes their number even. */
static unsigned eight_signs(unsigned seven)
{
    return seven | (unsigned)__builtin_parity(seven) << 7;
}

/* 8 codes: an entry's digits with the signs (bit i: value i is negative). */
static void signed_digits(uint8_t *c, unsigned entry, unsigned signs)
{
    for (unsigned i = 0; i < 8; i++) c[i] = (uint8_t)((entry >> 2 * i & 3) | (signs >> i & 1) << 2);
}

/* The same with two entries of 4 digits. */
static void signed_digits_3(uint8_t *c, unsigned low, unsigned high, unsigned signs)
{
    for (unsigned i = 0; i < 8; i++)
        c[i] = (uint8_t)(((i < 4 ? low : high) >> 4 * (i % 4) & 7) | (signs >> i & 1) << 3);
}

static uint8_t odd_scale(const uint8_t *nibbles, unsigned i)
{
    return (uint8_t)(2 * (nibbles[i / 2] >> i % 2 * 4 & 15) + 1);
}

void format_iq2_xxs(struct format_block *b, const uint8_t *p)
{
    memcpy(b->d, p, 2);
    p += 2;
    for (unsigned i = 0; i < 8; i++, p += 8) {
        uint32_t u = load32(p + 4);
        b->sub[i] = (uint8_t)(2 * (u >> 28) + 1);
        for (unsigned g = 0; g < 4; g++)
            signed_digits(b->c + 32 * i + 8 * g, codebook_iq2_xxs[p[g]], eight_signs(u >> 7 * g & 127));
    }
}

void format_iq2_xs(struct format_block *b, const uint8_t *p)
{
    memcpy(b->d, p, 2);
    for (unsigned g = 0; g < 32; g++) {
        unsigned u = load16(p + 2 + 2 * g);
        signed_digits(b->c + 8 * g, codebook_iq2_xs[u & 511], eight_signs(u >> 9));
    }
    for (unsigned i = 0; i < 16; i++) b->sub[i] = odd_scale(p + 66, i);
}

void format_iq2_s(struct format_block *b, const uint8_t *p)
{
    memcpy(b->d, p, 2);
    for (unsigned g = 0; g < 32; g++) {
        unsigned high = p[66 + g / 4] >> g % 4 * 2 & 3;
        signed_digits(b->c + 8 * g, codebook_iq2_s[p[2 + g] | high << 8], p[34 + g]);
    }
    for (unsigned i = 0; i < 16; i++) b->sub[i] = odd_scale(p + 74, i);
}

void format_iq3_xxs(struct format_block *b, const uint8_t *p)
{
    memcpy(b->d, p, 2);
    for (unsigned i = 0; i < 8; i++) {
        uint32_t u = load32(p + 66 + 4 * i);
        b->sub[i] = (uint8_t)(2 * (u >> 28) + 1);
        for (unsigned g = 0; g < 4; g++) {
            const uint8_t *two = p + 2 + 8 * i + 2 * g;
            signed_digits_3(b->c + 32 * i + 8 * g, codebook_iq3_xxs[two[0]], codebook_iq3_xxs[two[1]],
                            eight_signs(u >> 7 * g & 127));
        }
    }
}

void format_iq3_s(struct format_block *b, const uint8_t *p)
{
    memcpy(b->d, p, 2);
    for (unsigned g = 0; g < 32; g++) {
        const uint8_t *two = p + 2 + 2 * g;
        unsigned high = p[66 + g / 4] >> g % 4 * 2;
        signed_digits_3(b->c + 8 * g, codebook_iq3_s[two[0] | (high & 1) << 8],
                        codebook_iq3_s[two[1] | (high & 2) << 7], p[74 + g]);
    }
    for (unsigned i = 0; i < 8; i++) b->sub[i] = odd_scale(p + 106, i);
}

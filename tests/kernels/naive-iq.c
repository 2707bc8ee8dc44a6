/* SPDX-License-Identifier: MIT */
/* Values of TQ1_0, TQ2_0, IQ1 … IQ3 from the formats' descriptions. A block is a string of bits. */
#include "kernels/codebook.h"
#include "tests/kernels/check.h"
#include <math.h>
#include <string.h>

static float half(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return kern_f16_to_f32(h);
}

static unsigned bits(const uint8_t *p, size_t at, unsigned n)
{
    unsigned v = 0;
    for (unsigned i = 0; i < n; i++) v |= (p[(at + i) / 8] >> (at + i) % 8 & 1u) << i;
    return v;
}

static float trit(const uint8_t *p, size_t j)
{
    size_t n = j < 160 ? j / 32 : j < 240 ? (j - 160) / 16 : (j - 240) / 4;
    unsigned byte = p[j < 160 ? j % 32 : j < 240 ? 32 + j % 16 : 48 + j % 4];
    for (; n; n--) byte = byte * 3 % 256;
    return (float)(byte * 3 / 256) - 1;
}

/* A value of IQ1: a digit and an eighth. */
static float moved(unsigned entry, size_t j, unsigned down)
{
    static const float digits[] = {0, 1, -1, 0};
    return digits[codebook_iq1[entry] >> 2 * (j % 8) & 3] + (down ? -0.125f : 0.125f);
}

/* Bit @i of eight signs of which seven are given. */
static unsigned sign_of(unsigned seven, size_t i)
{
    unsigned odd = 0;
    for (unsigned k = 0; k < 7; k++) odd ^= seven >> k & 1;
    return i < 7 ? seven >> i & 1 : odd;
}

static float iq2(uint16_t entry, size_t j, unsigned sign)
{
    static const float digits[] = {8, 25, 43, 0};
    return digits[entry >> 2 * (j % 8) & 3] * (sign ? -1 : 1);
}

static float iq3(uint16_t entry, size_t j, unsigned sign, bool xxs)
{
    static const float digits[] = {4, 12, 20, 28, 36, 44, 52, 62};
    unsigned n = entry >> 4 * (j % 4) & 7;
    return (xxs ? digits[n] : (float)(2 * n + 1)) * (sign ? -1 : 1);
}

static float naive_iq1_m(const uint8_t *p, size_t j)
{
    size_t g = j / 8;
    uint16_t d = (uint16_t)(bits(p + 48, 12, 4) | bits(p + 48, 28, 4) << 4 | bits(p + 48, 44, 4) << 8 |
                            bits(p + 48, 60, 4) << 12);
    float s = (float)(2 * bits(p + 48, j / 64 * 16 + j / 16 % 4 * 3, 3) + 1);
    return kern_f16_to_f32(d) * s * moved(p[g] | bits(p + 32, 4 * g, 3) << 8, j, bits(p + 32, 4 * g + 3, 1));
}

float naive_iq(enum kern_type t, const uint8_t *p, size_t j)
{
    size_t i = j / 32, g = j / 8, n = j / 4, in = g % 4;
    unsigned sign;
    switch (t) {
    case KERN_TQ1_0:
        return half(p + 52) * trit(p, j);
    case KERN_TQ2_0:
        return half(p + 64) * ((float)bits(p, j / 128 * 256 + j % 32 * 8 + i % 4 * 2, 2) - 1);
    case KERN_IQ1_S:
        return half(p) * (float)(2 * bits(p + 34, 16 * i + 12, 3) + 1) *
               moved(p[2 + g] | bits(p + 34, 16 * i + 3 * in, 3) << 8, j, bits(p + 34, 16 * i + 15, 1));
    case KERN_IQ1_M:
        return naive_iq1_m(p, j);
    case KERN_IQ2_XXS:
        sign = sign_of(bits(p + 2, 64 * i + 32 + 7 * in, 7), j % 8);
        return half(p) * (0.5f + (float)bits(p + 2, 64 * i + 60, 4)) * 0.25f *
               iq2(codebook_iq2_xxs[p[2 + 8 * i + in]], j, sign);
    case KERN_IQ2_XS:
        sign = sign_of(bits(p + 2, 16 * g + 9, 7), j % 8);
        return half(p) * (0.5f + (float)bits(p + 66, j / 16 * 4, 4)) * 0.25f *
               iq2(codebook_iq2_xs[bits(p + 2, 16 * g, 9)], j, sign);
    case KERN_IQ2_S:
        return half(p) * (0.5f + (float)bits(p + 74, j / 16 * 4, 4)) * 0.25f *
               iq2(codebook_iq2_s[p[2 + g] | bits(p + 66, 2 * g, 2) << 8], j, bits(p + 34, j, 1));
    case KERN_IQ3_XXS:
        sign = sign_of(bits(p + 66, 32 * i + 7 * in, 7), j % 8);
        return half(p) * (0.5f + (float)bits(p + 66, 32 * i + 28, 4)) * 0.5f *
               iq3(codebook_iq3_xxs[p[2 + n]], j, sign, true);
    case KERN_IQ3_S:
        return half(p) * (float)(1 + 2 * bits(p + 106, 4 * i, 4)) *
               iq3(codebook_iq3_s[p[2 + n] | bits(p + 66, n, 1) << 8], j, bits(p + 74, j, 1), false);
    default:
        return NAN;
    }
}

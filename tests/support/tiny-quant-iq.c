/* SPDX-License-Identifier: MIT */
/* Ternary and codebook types. The entry of a codebook is any, since a search for the nearest takes long: only the signs
 * and the sizes are the values'. */
#include "tests/support/tiny-quant-iq.h"
#include "kernels/kernels.h"
#include <math.h>
#include <string.h>

static float most(const float *x, unsigned n)
{
    float amax = 0;
    for (unsigned i = 0; i < n; i++) amax = fmaxf(amax, fabsf(x[i]));
    return amax;
}

static void put16(uint8_t *p, unsigned v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static void put_half(uint8_t *p, float f)
{
    put16(p, kern_f32_to_f16(f));
}

/* -1, 0 or 1, plus 1. */
static unsigned ternary(const float *x, unsigned i, float d)
{
    return (unsigned)(fminf(fmaxf(d > 0 ? rintf(x[i] / d) : 0, -1), 1) + 1);
}

/* @n digits, @step values apart, as a fraction in base 3, rounded up. */
static uint8_t trits(const float *x, unsigned n, unsigned step, float d)
{
    unsigned v = 0;
    for (unsigned i = 0; i < 5; i++) v = v * 3 + (i < n ? ternary(x, i * step, d) : 0);
    return (uint8_t)((v * 256 + 242) / 243);
}

void tiny_pack_tq1_0(uint8_t *p, const float *x)
{
    float d = most(x, 256) / 2;
    for (unsigned i = 0; i < 32; i++) p[i] = trits(x + i, 5, 32, d);
    for (unsigned i = 0; i < 16; i++) p[32 + i] = trits(x + 160 + i, 5, 16, d);
    for (unsigned i = 0; i < 4; i++) p[48 + i] = trits(x + 240 + i, 4, 4, d);
    put_half(p + 52, d);
}

void tiny_pack_tq2_0(uint8_t *p, const float *x)
{
    float d = most(x, 256) / 2;
    memset(p, 0, 64);
    for (unsigned j = 0; j < 256; j++) p[j / 128 * 32 + j % 32] |= (uint8_t)(ternary(x, j, d) << j / 32 % 4 * 2);
    put_half(p + 64, d);
}

/* Any number below 2^@n, of these values. */
static unsigned any(const float *x, unsigned n)
{
    uint32_t u;
    memcpy(&u, x, sizeof(u));
    return (uint32_t)(u * 2654435761u) >> (32 - n);
}

static unsigned signs(const float *x, unsigned n)
{
    unsigned s = 0;
    for (unsigned i = 0; i < n; i++) s |= (unsigned)(x[i] < 0) << i;
    return s;
}

/* The sub-scale whose 2s + 1 is to @top as the largest of @n values is to @all. */
static unsigned odd(const float *x, unsigned n, float all, unsigned top)
{
    float s = all > 0 ? rintf((most(x, n) / all * (float)top - 1) / 2) : 0;
    return (unsigned)fminf(fmaxf(s, 0), (float)(top / 2));
}

void tiny_pack_iq1_s(uint8_t *p, const float *x)
{
    float all = most(x, 256);
    put_half(p, all / 15);
    for (unsigned i = 0; i < 8; i++) {
        unsigned h = odd(x + 32 * i, 32, all, 15) << 12 | (unsigned)(x[32 * i] < 0) << 15;
        for (unsigned g = 0; g < 4; g++) {
            unsigned entry = any(x + 32 * i + 8 * g, 11);
            p[2 + 4 * i + g] = (uint8_t)entry;
            h |= entry >> 8 << 3 * g;
        }
        put16(p + 34 + 2 * i, h);
    }
}

void tiny_pack_iq1_m(uint8_t *p, const float *x)
{
    float all = most(x, 256);
    unsigned d = kern_f32_to_f16(all / 15);
    memset(p + 32, 0, 16);
    for (unsigned g = 0; g < 32; g++) {
        unsigned entry = any(x + 8 * g, 11);
        p[g] = (uint8_t)entry;
        p[32 + g / 2] |= (uint8_t)((entry >> 8 | (unsigned)(x[8 * g] < 0) << 3) << g % 2 * 4);
    }
    for (unsigned i = 0; i < 4; i++) {
        unsigned sc = (d >> 4 * i & 15) << 12;
        for (unsigned k = 0; k < 4; k++) sc |= odd(x + 64 * i + 16 * k, 16, all, 15) << 3 * k;
        put16(p + 48 + 2 * i, sc);
    }
}

/* Four times 7 signs, and a sub-scale. */
static void put_signs(uint8_t *p, const float *x, unsigned s)
{
    uint32_t u = s << 28;
    for (unsigned g = 0; g < 4; g++) u |= signs(x + 8 * g, 7) << 7 * g;
    put16(p, u & 0xffff);
    put16(p + 2, u >> 16);
}

/* Nibbles, one for @n values. */
static void put_scales(uint8_t *p, const float *x, unsigned n, float all)
{
    memset(p, 0, 256 / n / 2);
    for (unsigned i = 0; i < 256 / n; i++) p[i / 2] |= (uint8_t)(odd(x + n * i, n, all, 31) << i % 2 * 4);
}

void tiny_pack_iq2_xxs(uint8_t *p, const float *x)
{
    float all = most(x, 256);
    put_half(p, all / 31 * 8 / 43);
    for (unsigned i = 0; i < 8; i++) {
        for (unsigned g = 0; g < 4; g++) p[2 + 8 * i + g] = (uint8_t)any(x + 32 * i + 8 * g, 8);
        put_signs(p + 6 + 8 * i, x + 32 * i, odd(x + 32 * i, 32, all, 31));
    }
}

void tiny_pack_iq2_xs(uint8_t *p, const float *x)
{
    float all = most(x, 256);
    put_half(p, all / 31 * 8 / 43);
    for (unsigned g = 0; g < 32; g++) put16(p + 2 + 2 * g, any(x + 8 * g, 9) | signs(x + 8 * g, 7) << 9);
    put_scales(p + 66, x, 16, all);
}

void tiny_pack_iq2_s(uint8_t *p, const float *x)
{
    float all = most(x, 256);
    put_half(p, all / 31 * 8 / 43);
    memset(p + 66, 0, 8);
    for (unsigned g = 0; g < 32; g++) {
        unsigned entry = any(x + 8 * g, 10);
        p[2 + g] = (uint8_t)entry;
        p[34 + g] = (uint8_t)signs(x + 8 * g, 8);
        p[66 + g / 4] |= (uint8_t)(entry >> 8 << g % 4 * 2);
    }
    put_scales(p + 74, x, 16, all);
}

void tiny_pack_iq3_xxs(uint8_t *p, const float *x)
{
    float all = most(x, 256);
    put_half(p, all / 31 * 4 / 62);
    for (unsigned n = 0; n < 64; n++) p[2 + n] = (uint8_t)any(x + 4 * n, 8);
    for (unsigned i = 0; i < 8; i++) put_signs(p + 66 + 4 * i, x + 32 * i, odd(x + 32 * i, 32, all, 31));
}

void tiny_pack_iq3_s(uint8_t *p, const float *x)
{
    float all = most(x, 256);
    put_half(p, all / 31 / 15);
    memset(p + 66, 0, 8);
    for (unsigned n = 0; n < 64; n++) {
        unsigned entry = any(x + 4 * n, 9);
        p[2 + n] = (uint8_t)entry;
        p[66 + n / 8] |= (uint8_t)(entry >> 8 << n % 8);
    }
    for (unsigned g = 0; g < 32; g++) p[74 + g] = (uint8_t)signs(x + 8 * g, 8);
    put_scales(p + 106, x, 32, all);
}

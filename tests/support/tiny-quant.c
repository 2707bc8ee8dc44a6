/* SPDX-License-Identifier: MIT */
/* In the formats that kernels/format.h describes, written apart from what reads them. */
#include "tests/support/tiny-quant.h"
#include "kernels/kernels.h"
#include "tests/support/tiny-quant-iq.h"
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

static void put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static void put_half(uint8_t *p, float f)
{
    put16(p, kern_f32_to_f16(f));
}

static unsigned code(float x, float low, float d, float max)
{
    float q = d != 0 ? rintf((x - low) / d) : 0;
    return (unsigned)fminf(fmaxf(q, 0), max);
}

static float most(const float *x, unsigned n)
{
    float amax = 0;
    for (unsigned i = 0; i < n; i++) amax = fmaxf(amax, fabsf(x[i]));
    return amax;
}

/* --- floats --- */

static void pack_f32(uint8_t *p, const float *x)
{
    memcpy(p, x, 4);
}

static void pack_f16(uint8_t *p, const float *x)
{
    put_half(p, *x);
}

static void pack_bf16(uint8_t *p, const float *x)
{
    uint32_t u;
    memcpy(&u, x, 4);
    put16(p, (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16));
}

/* --- blocks of 32 --- */

static void pack_q8_0(uint8_t *p, const float *x)
{
    float amax = most(x, 32);
    put_half(p, amax / 127);
    for (int i = 0; i < 32; i++) p[2 + i] = (uint8_t)(int8_t)(amax > 0 ? rintf(x[i] / (amax / 127)) : 0);
}

/* 4 or 5 bits, from the value of the largest magnitude, or between the smallest and the largest value. */
static void pack_simple(uint8_t *p, const float *x, int top, bool offset)
{
    float lo = INFINITY, hi = -INFINITY;
    for (int i = 0; i < 32; i++) lo = fminf(lo, x[i]), hi = fmaxf(hi, x[i]);
    float big = fabsf(lo) > hi ? lo : hi, d = offset ? (hi - lo) / (float)top : big / (float)-(top / 2 + 1);
    if (!offset) lo = (float)-(top / 2 + 1) * d;
    put_half(p, d);
    if (offset) put_half(p + 2, lo);
    uint8_t *fifth = p + (offset ? 4 : 2), *q = fifth + (top > 15 ? 4 : 0);
    memset(fifth, 0, (size_t)(q - fifth) + 16);
    for (int i = 0; i < 32; i++) {
        unsigned c = code(x[i], lo, d, (float)top);
        q[i % 16] |= (uint8_t)((c & 15) << i / 16 * 4);
        if (top > 15) fifth[i / 8] |= (uint8_t)((c >> 4) << i % 8);
    }
}

static void pack_q4_0(uint8_t *p, const float *x)
{
    pack_simple(p, x, 15, false);
}

static void pack_q4_1(uint8_t *p, const float *x)
{
    pack_simple(p, x, 15, true);
}

static void pack_q5_0(uint8_t *p, const float *x)
{
    pack_simple(p, x, 31, false);
}

static void pack_q5_1(uint8_t *p, const float *x)
{
    pack_simple(p, x, 31, true);
}

/* 32 values as the nearest of a table's times d, low nibbles first. */
static void pack_table(uint8_t *q, const float *x, const int8_t *table, float d)
{
    memset(q, 0, 16);
    for (int i = 0; i < 32; i++) {
        unsigned best = 0;
        for (unsigned c = 1; c < 16; c++)
            if (fabsf(x[i] - d * (float)table[c]) < fabsf(x[i] - d * (float)table[best])) best = c;
        q[i % 16] |= (uint8_t)(best << i / 16 * 4);
    }
}

static const int8_t iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static void pack_iq4_nl(uint8_t *p, const float *x)
{
    float d = most(x, 32) / 120;
    put_half(p, d);
    pack_table(p + 2, x, iq4, d);
}

/* The power of two with which the largest value is at most 6, the largest of E2M1. */
static void pack_mxfp4(uint8_t *p, const float *x)
{
    static const int8_t halves[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    float amax = most(x, 32);
    int e = amax > 0 ? (int)ceilf(log2f(amax / 6)) : -127;
    p[0] = (uint8_t)(e + 127);
    pack_table(p + 1, x, halves, ldexpf(0.5f, e));
}

/* --- blocks of 256 --- */

/* Minimum and step of @n values each, as integers of at most @top times d and dmin. */
struct steps {
    float d, dmin;
    unsigned sc[16], min[16];
};

static void find_steps(struct steps *s, const float *x, unsigned n, float codes, float top)
{
    float step[16], low[16], step_most = 0, low_most = 0;
    for (unsigned i = 0; i < 256 / n; i++) {
        float lo = 0, hi = 0;
        for (unsigned j = 0; j < n; j++) lo = fminf(lo, x[i * n + j]), hi = fmaxf(hi, x[i * n + j]);
        step[i] = (hi - lo) / codes, low[i] = -lo;
        step_most = fmaxf(step_most, step[i]), low_most = fmaxf(low_most, low[i]);
    }
    s->d = step_most / top, s->dmin = low_most / top;
    for (unsigned i = 0; i < 256 / n; i++) {
        s->sc[i] = code(step[i], 0, s->d, top);
        s->min[i] = code(low[i], 0, s->dmin, top);
    }
}

static unsigned step_code(const struct steps *s, float x, unsigned i, float codes)
{
    return code(x, -s->dmin * (float)s->min[i], s->d * (float)s->sc[i], codes);
}

static void pack_q2_k(uint8_t *p, const float *x)
{
    struct steps s;
    find_steps(&s, x, 16, 3, 15);
    memset(p, 0, 84);
    for (unsigned i = 0; i < 16; i++) p[i] = (uint8_t)(s.sc[i] | s.min[i] << 4);
    for (unsigned i = 0; i < 256; i++)
        p[16 + i / 128 * 32 + i % 32] |= (uint8_t)(step_code(&s, x[i], i / 16, 3) << i / 32 % 4 * 2);
    put_half(p + 80, s.d);
    put_half(p + 82, s.dmin);
}

static void pack_q3_k(uint8_t *p, const float *x)
{
    float d = most(x, 256) / 4 / 31;
    memset(p, 0, 110);
    for (unsigned n = 0; n < 16; n++) {
        unsigned sc = code(most(x + 16 * n, 16) / 4, 0, d, 31), stored = sc + 32;
        p[96 + n % 8] |= (uint8_t)((stored & 15) << n / 8 * 4);
        p[104 + n % 4] |= (uint8_t)(stored >> 4 << n / 4 * 2);
        for (unsigned i = 16 * n; i < 16 * n + 16; i++) {
            unsigned c = code(x[i], -4 * d * (float)sc, d * (float)sc, 7);
            p[32 + i / 128 * 32 + i % 32] |= (uint8_t)((c & 3) << i / 32 % 4 * 2);
            p[i % 32] |= (uint8_t)(c >> 2 << i / 32);
        }
    }
    put_half(p + 108, d);
}

/* d, dmin and the 12 bytes of Q4_K and Q5_K. */
static void pack_six_bits(uint8_t *p, const struct steps *s)
{
    put_half(p, s->d);
    put_half(p + 2, s->dmin);
    for (unsigned i = 0; i < 4; i++) {
        p[4 + i] = (uint8_t)(s->sc[i] | s->sc[i + 4] >> 4 << 6);
        p[8 + i] = (uint8_t)(s->min[i] | s->min[i + 4] >> 4 << 6);
        p[12 + i] = (uint8_t)((s->sc[i + 4] & 15) | (s->min[i + 4] & 15) << 4);
    }
}

static void pack_q4_k(uint8_t *p, const float *x)
{
    struct steps s;
    find_steps(&s, x, 32, 15, 63);
    memset(p, 0, 144);
    pack_six_bits(p, &s);
    for (unsigned i = 0; i < 256; i++)
        p[16 + i / 64 * 32 + i % 32] |= (uint8_t)(step_code(&s, x[i], i / 32, 15) << i / 32 % 2 * 4);
}

static void pack_q5_k(uint8_t *p, const float *x)
{
    struct steps s;
    find_steps(&s, x, 32, 31, 63);
    memset(p, 0, 176);
    pack_six_bits(p, &s);
    for (unsigned i = 0; i < 256; i++) {
        unsigned c = step_code(&s, x[i], i / 32, 31);
        p[48 + i / 64 * 32 + i % 32] |= (uint8_t)((c & 15) << i / 32 % 2 * 4);
        p[16 + i % 32] |= (uint8_t)(c >> 4 << i / 32);
    }
}

/* Sub-scales of 16 values are multiples of d, the largest of them 127. */
static void pack_q6_k(uint8_t *p, const float *x)
{
    float d = most(x, 256) / 31 / 127;
    memset(p, 0, 210);
    put_half(p + 208, d);
    for (unsigned i = 0; i < 256; i++) {
        float sc = d > 0 ? rintf(most(x + i / 16 * 16, 16) / 31 / d) : 0;
        unsigned c = code(x[i], -32 * d * sc, d * sc, 63), half = i / 128, l = i % 128;
        p[192 + i / 16] = (uint8_t)sc;
        p[64 * half + l % 64] |= (uint8_t)((c & 15) << (l < 64 ? 0 : 4));
        p[128 + 32 * half + l % 32] |= (uint8_t)(c >> 4 << 2 * (l / 32));
    }
}

/* Sub-scales of 32 values, here of either sign. */
static void pack_iq4_xs(uint8_t *p, const float *x)
{
    float d = most(x, 256) / 120 / 31;
    unsigned high = 0;
    memset(p, 0, 136);
    put_half(p, d);
    for (unsigned i = 0; i < 8; i++) {
        int sc = (int)code(most(x + 32 * i, 32) / 120, 0, d, 31) * (i % 2 ? -1 : 1);
        p[4 + i / 2] |= (uint8_t)(((sc + 32) & 15) << i % 2 * 4);
        high |= (unsigned)(sc + 32) >> 4 << 2 * i;
        pack_table(p + 8 + 16 * i, x + 32 * i, iq4, d * (float)sc);
    }
    put16(p + 2, (uint16_t)high);
}

static const struct tiny_type types[] = {
    {"F32", 0, 1, 4, pack_f32},
    {"F16", 1, 1, 2, pack_f16},
    {"Q4_0", 2, 32, 18, pack_q4_0},
    {"Q4_1", 3, 32, 20, pack_q4_1},
    {"Q5_0", 6, 32, 22, pack_q5_0},
    {"Q5_1", 7, 32, 24, pack_q5_1},
    {"Q8_0", 8, 32, 34, pack_q8_0},
    {"Q2_K", 10, 256, 84, pack_q2_k},
    {"Q3_K", 11, 256, 110, pack_q3_k},
    {"Q4_K", 12, 256, 144, pack_q4_k},
    {"Q5_K", 13, 256, 176, pack_q5_k},
    {"Q6_K", 14, 256, 210, pack_q6_k},
    {"IQ4_NL", 20, 32, 18, pack_iq4_nl},
    {"IQ4_XS", 23, 256, 136, pack_iq4_xs},
    {"BF16", 30, 1, 2, pack_bf16},
    {"MXFP4", 39, 32, 17, pack_mxfp4},
    {"TQ1_0", 34, 256, 54, tiny_pack_tq1_0},
    {"TQ2_0", 35, 256, 66, tiny_pack_tq2_0},
    {"IQ1_S", 19, 256, 50, tiny_pack_iq1_s},
    {"IQ1_M", 29, 256, 56, tiny_pack_iq1_m},
    {"IQ2_XXS", 16, 256, 66, tiny_pack_iq2_xxs},
    {"IQ2_XS", 17, 256, 74, tiny_pack_iq2_xs},
    {"IQ2_S", 22, 256, 82, tiny_pack_iq2_s},
    {"IQ3_XXS", 18, 256, 98, tiny_pack_iq3_xxs},
    {"IQ3_S", 21, 256, 110, tiny_pack_iq3_s},
};

const struct tiny_type *tiny_type_numbered(uint32_t number)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        if (types[i].number == number) return &types[i];
    return NULL;
}

const struct tiny_type *tiny_type_named(const char *name)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        if (!strcasecmp(types[i].name, name)) return &types[i];
    return NULL;
}

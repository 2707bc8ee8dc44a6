/* SPDX-License-Identifier: MIT */
/* Rows of ternary and codebook types, as their values are defined in ggml: the codebooks are shared with the kernels,
 * nothing else. */
#include "daemon/reference/reference-weights.h"
#include "kernels/codebook.h"
#include <math.h>

enum { BLOCK = 256 };

static float half_at(const uint8_t *p)
{
    return kern_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

/* Digit @n of a fraction in base 3. */
static int digit(int byte, int n)
{
    while (n--) byte = byte * 3 & 255;
    return byte * 3 >> 8;
}

static void block_tq1_0(float *out, const uint8_t *p)
{
    float d = half_at(p + 52);
    for (int n = 0; n < 5; n++)
        for (int i = 0; i < 32; i++) *out++ = d * (float)(digit(p[i], n) - 1);
    for (int n = 0; n < 5; n++)
        for (int i = 32; i < 48; i++) *out++ = d * (float)(digit(p[i], n) - 1);
    for (int n = 0; n < 4; n++)
        for (int i = 48; i < 52; i++) *out++ = d * (float)(digit(p[i], n) - 1);
}

static void block_tq2_0(float *out, const uint8_t *p)
{
    float d = half_at(p + 64);
    for (int part = 0; part < 64; part += 32)
        for (int n = 0; n < 8; n += 2)
            for (int i = 0; i < 32; i++) *out++ = d * (float)((p[part + i] >> n & 3) - 1);
}

static float *eight_moved(float *out, float scale, unsigned entry, bool down)
{
    for (int i = 0; i < 8; i++) {
        int two = codebook_iq1[entry] >> 2 * i & 3;
        *out++ = scale * ((two == 2 ? -1.0f : (float)two) + (down ? -0.125f : 0.125f));
    }
    return out;
}

static void block_iq1_s(float *out, const uint8_t *p)
{
    const uint8_t *q = p + 2, *h = p + 34;
    for (int i = 0; i < 8; i++, h += 2) {
        unsigned u = h[0] | (unsigned)h[1] << 8;
        float scale = half_at(p) * (float)(2 * (u >> 12 & 7) + 1);
        for (int g = 0; g < 4; g++) out = eight_moved(out, scale, *q++ + 256 * (u >> 3 * g & 7), u >= 0x8000);
    }
}

static void block_iq1_m(float *out, const uint8_t *p)
{
    uint64_t s = 0;
    for (int i = 7; i >= 0; i--) s = s << 8 | p[48 + i];
    float d = kern_f16_to_f32((uint16_t)((s >> 12 & 15) | (s >> 28 & 15) << 4 | (s >> 44 & 15) << 8 | s >> 60 << 12));
    for (int g = 0; g < 32; g++) {
        unsigned h = g % 2 ? p[32 + g / 2] >> 4 : p[32 + g / 2] & 15;
        float scale = d * (float)(2 * (s >> (g / 8 * 16 + g / 2 % 4 * 3) & 7) + 1);
        out = eight_moved(out, scale, p[g] + 256 * (h & 7), h > 7);
    }
}

static unsigned with_parity(unsigned seven)
{
    unsigned all = seven;
    for (unsigned x = seven; x; x &= x - 1) all ^= 128;
    return all;
}

static float *eight_of_iq2(float *out, float scale, unsigned entry, unsigned signs)
{
    static const float values[] = {8, 25, 43, 0};
    for (int i = 0; i < 8; i++) *out++ = scale * values[entry >> 2 * i & 3] * (signs >> i & 1 ? -1 : 1);
    return out;
}

static float quarter(float d, unsigned s)
{
    return d * (0.5f + (float)s) * 0.25f;
}

static void block_iq2_xxs(float *out, const uint8_t *p)
{
    const uint8_t *q = p + 2;
    for (int i = 0; i < 8; i++, q += 8) {
        uint32_t u = q[4] | (uint32_t)q[5] << 8 | (uint32_t)q[6] << 16 | (uint32_t)q[7] << 24;
        for (int g = 0; g < 4; g++, u >>= 7)
            out = eight_of_iq2(out, quarter(half_at(p), q[7] >> 4), codebook_iq2_xxs[q[g]], with_parity(u & 127));
    }
}

static void block_iq2_xs(float *out, const uint8_t *p)
{
    for (int g = 0; g < 32; g++) {
        unsigned q = p[2 + 2 * g] | (unsigned)p[3 + 2 * g] << 8, s = p[66 + g / 4];
        float scale = quarter(half_at(p), g % 4 < 2 ? s & 15 : s >> 4);
        out = eight_of_iq2(out, scale, codebook_iq2_xs[q % 512], with_parity(q / 512));
    }
}

static void block_iq2_s(float *out, const uint8_t *p)
{
    for (int g = 0; g < 32; g++) {
        unsigned entry = p[2 + g] + 256u * (p[66 + g / 4] >> g % 4 * 2 & 3), s = p[74 + g / 4];
        out = eight_of_iq2(out, quarter(half_at(p), g % 4 < 2 ? s & 15 : s >> 4), codebook_iq2_s[entry], p[34 + g]);
    }
}

static float *four_of_iq3(float *out, float scale, const float *values, unsigned entry, unsigned signs)
{
    for (int i = 0; i < 4; i++) *out++ = scale * values[entry >> 4 * i & 7] * (signs >> i & 1 ? -1 : 1);
    return out;
}

static void block_iq3_xxs(float *out, const uint8_t *p)
{
    static const float values[] = {4, 12, 20, 28, 36, 44, 52, 62};
    const uint8_t *q = p + 2, *s = p + 66;
    for (int i = 0; i < 8; i++, s += 4) {
        uint32_t u = s[0] | (uint32_t)s[1] << 8 | (uint32_t)s[2] << 16 | (uint32_t)s[3] << 24;
        float scale = half_at(p) * (0.5f + (float)(u >> 28)) * 0.5f;
        for (int g = 0; g < 4; g++, u >>= 7, q += 2) {
            unsigned signs = with_parity(u & 127);
            out = four_of_iq3(out, scale, values, codebook_iq3_xxs[q[0]], signs & 15);
            out = four_of_iq3(out, scale, values, codebook_iq3_xxs[q[1]], signs >> 4);
        }
    }
}

static void block_iq3_s(float *out, const uint8_t *p)
{
    static const float values[] = {1, 3, 5, 7, 9, 11, 13, 15};
    for (int n = 0; n < 64; n++) {
        unsigned entry = p[2 + n] + (p[66 + n / 8] >> n % 8 & 1 ? 256u : 0), s = p[106 + n / 16];
        float scale = half_at(p) * (float)(1 + 2 * (n % 16 < 8 ? s & 15 : s >> 4));
        out = four_of_iq3(out, scale, values, codebook_iq3_s[entry], p[74 + n / 2] >> n % 2 * 4 & 15);
    }
}

#define ROW(name, bytes)                                                                                               \
    void reference_row_##name(float *out, const uint8_t *p, uint64_t k)                                                \
    {                                                                                                                  \
        for (uint64_t b = 0; b < k / BLOCK; b++) block_##name(out + b * BLOCK, p + b * bytes);                         \
    }

ROW(tq1_0, 54)
ROW(tq2_0, 66)
ROW(iq1_s, 50)
ROW(iq1_m, 56)
ROW(iq2_xxs, 66)
ROW(iq2_xs, 74)
ROW(iq2_s, 82)
ROW(iq3_xxs, 98)
ROW(iq3_s, 110)

/* SPDX-License-Identifier: MIT */
/* The parts that do not depend on the CPU: decoding, panels, conversions, exp, the choice of a table. */
#include "tests/kernels/check.h"
#include <math.h>
#include <string.h>

static float half(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return kern_f16_to_f32(h);
}

/* @n bits of the little-endian bit string at @p, from bit @at on. */
static int bits(const uint8_t *p, size_t at, unsigned n)
{
    int v = 0;
    for (unsigned i = 0; i < n; i++) v |= (p[(at + i) / 8] >> (at + i) % 8 & 1) << i;
    return v;
}

/* E2M1: sign, two bits of exponent (bias 1), one of mantissa; without a table. A zero has no sign in GGUF. */
static float fp4(int c)
{
    float v = c & 6 ? ldexpf(1 + (float)(c & 1) / 2, (c >> 1 & 3) - 1) : (float)(c & 1) / 2;
    return c & 8 && v != 0 ? -v : v;
}

static const int iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/* Value @j of a block of 32. */
static float naive_32(enum kern_type t, const uint8_t *p, size_t j)
{
    size_t nibble = j % 16 * 8 + j / 16 * 4;
    switch (t) {
    case KERN_Q8_0:
        return half(p) * (float)((int)p[2 + j] - (p[2 + j] > 127 ? 256 : 0));
    case KERN_Q4_0:
        return half(p) * (float)(bits(p + 2, nibble, 4) - 8);
    case KERN_Q4_1:
        return half(p) * (float)bits(p + 4, nibble, 4) + half(p + 2);
    case KERN_Q5_0:
        return half(p) * (float)(bits(p + 6, nibble, 4) + 16 * bits(p + 2, j, 1) - 16);
    case KERN_Q5_1:
        return half(p) * (float)(bits(p + 8, nibble, 4) + 16 * bits(p + 4, j, 1)) + half(p + 2);
    case KERN_IQ4_NL:
        return half(p) * (float)iq4[bits(p + 2, nibble, 4)];
    case KERN_MXFP4:
        return ldexpf(fp4(bits(p + 1, nibble, 4)), p[0] - 127);
    default:
        return NAN;
    }
}

/* Sub-scale (@m 0) or minimum (@m 1) @i of the 12 bytes of Q4_K and Q5_K. */
static float k4(const uint8_t *sc, size_t i, size_t m)
{
    size_t b = 8 * i; /* of the first four's bytes: their upper 2 bits are for the other four */
    if (i < 4) return (float)bits(sc + 4 * m, b, 6);
    return (float)(bits(sc + 8, b - 32 + 4 * m, 4) + 16 * bits(sc + 4 * m, b - 32 + 6, 2));
}

/* Value @j of a block of 256. */
static float naive_256(enum kern_type t, const uint8_t *p, size_t j)
{
    size_t two = j / 128 * 256 + j % 32 * 8 + j / 32 % 4 * 2, four = j / 64 * 256 + j % 32 * 8 + j / 32 % 2 * 4;
    size_t i = j / 32;
    int c;
    switch (t) {
    case KERN_Q2_K:
        return half(p + 80) * (float)(p[j / 16] % 16) * (float)bits(p + 16, two, 2) -
               half(p + 82) * (float)(p[j / 16] / 16);
    case KERN_Q3_K:
        c = bits(p + 96, j / 16 % 8 * 8 + j / 128 * 4, 4) + 16 * bits(p + 104, j / 16 % 4 * 8 + j / 64 * 2, 2);
        return half(p + 108) * (float)(c - 32) * (float)(bits(p + 32, two, 2) - (bits(p, j % 32 * 8 + i, 1) ? 0 : 4));
    case KERN_Q4_K:
        return half(p) * k4(p + 4, i, 0) * (float)bits(p + 16, four, 4) - half(p + 2) * k4(p + 4, i, 1);
    case KERN_Q5_K:
        c = bits(p + 48, four, 4) + 16 * bits(p + 16, j % 32 * 8 + i, 1);
        return half(p) * k4(p + 4, i, 0) * (float)c - half(p + 2) * k4(p + 4, i, 1);
    case KERN_Q6_K:
        c = bits(p, j / 128 * 512 + j % 64 * 8 + j % 128 / 64 * 4, 4) + 16 * bits(p + 128, two, 2);
        return half(p + 208) * (float)(int)((p[192 + j / 16] ^ 128) - 128) * (float)(c - 32);
    case KERN_IQ4_XS:
        c = bits(p + 4, i * 4, 4) + 16 * bits(p + 2, i * 2, 2);
        return half(p) * (float)(c - 32) * (float)iq4[bits(p + 8, i * 128 + j % 16 * 8 + j % 32 / 16 * 4, 4)];
    default:
        return naive_iq(t, p, j);
    }
}

/* Value @i of a source row, decoded from the format's description alone. */
static float naive(enum kern_type t, const uint8_t *row, size_t i)
{
    const uint8_t *p = row + i / kern_type_block(t) * kern_type_bytes(t);
    size_t j = i % kern_type_block(t);
    float f = 0;
    if (kern_type_block(t) == 32) return naive_32(t, p, j);
    if (kern_type_block(t) == 256) return naive_256(t, p, j);
    if (t == KERN_F16) return half(p);
    memcpy((uint8_t *)&f + (t == KERN_BF16 ? 2 : 0), p, kern_type_bytes(t));
    return f;
}

static void one_panel(enum kern_type t, unsigned rows, size_t k)
{
    size_t stride = k / kern_type_block(t) * kern_type_bytes(t) + rng_below(3);
    uint8_t *src = mem(stride * rows);
    for (size_t i = 0; i < stride * rows; i++) src[i] = (uint8_t)rng();
    size_t bytes = kern_panel_bytes(t, k);
    assert_int_equal(bytes % KERN_ALIGN, 0);
    void *panel = mem(bytes);
    kern_panel_pack(t, panel, src, stride, rows, k);
    float *want = mem(k * sizeof(float)), *whole = mem(k * sizeof(float)), *got = mem(k * sizeof(float));
    for (unsigned r = 0; r < KERN_ROWS; r++) {
        for (size_t i = 0; i < k; i++) want[i] = r < rows ? naive(t, src + r * stride, i) : 0;
        kern_panel_row(t, got, panel, r, k);
        same_floats(got, want, k, "row %u of %u, k %zu", r, rows, k);
        if (r >= rows) continue;
        kern_dequant(t, whole, src + r * stride, k);
        same_floats(whole, want, k, "dequant, k %zu", k);
    }
    mem_reset();
}

void check_panel(void **state)
{
    struct check *c = *state;
    enum kern_type t = (enum kern_type)c->type;
    rng_seed(1);
    for (unsigned rows = 1; rows <= KERN_ROWS; rows++)
        for (size_t k = 1; k <= 7; k++) one_panel(t, rows, k * kern_type_block(t));
}

void check_exp(void **state)
{
    double worst = 0;
    for (float x = -87.3f; x <= 88.72f; x += 0x1p-12f) {
        double want = exp((double)x), ulp = (double)nextafterf((float)want, INFINITY) - (double)(float)want;
        double off = fabs((double)kern_exp(x) - want) / ulp;
        if (off > worst) worst = off;
    }
    if (worst > 1) fail_msg("exp is off by %.3f ulp", worst);
    assert_true(kern_exp(0) == 1 && kern_exp(-0.0f) == 1);
    assert_true(kern_exp(-INFINITY) == 0 && kern_exp(-87.4f) == 0 && kern_exp(-1e30f) == 0);
    assert_true(kern_exp(INFINITY) == INFINITY && kern_exp(89) == INFINITY && isnan(kern_exp(NAN)));
    for (uint32_t low = 1; low; low <<= 1) { /* any payload of a NaN */
        uint32_t bits = 0x7fc00000 | low;
        float nan;
        memcpy(&nan, &bits, sizeof(nan));
        assert_true(isnan(kern_exp(nan)) && isnan(kern_exp(-nan)));
    }
}

/* The nearest half, by search among all of them. */
static uint16_t nearest_half(float f)
{
    uint16_t best = 0;
    double off = INFINITY, a = fabs((double)f);
    for (unsigned h = 0; h <= 0x7c00; h++) {
        double v = h == 0x7c00 ? 65536 : ldexp(h < 0x400 ? h : 1024 + h % 1024, h < 0x400 ? -24 : (int)(h >> 10) - 25);
        double o = fabs(v - a);
        if (o < off || (o == off && h % 2 == 0)) off = o, best = (uint16_t)h;
    }
    return best | (signbit(f) ? 0x8000 : 0);
}

void check_f16(void **state)
{
    for (unsigned h = 0; h < 0x10000; h++) {
        float f = kern_f16_to_f32((uint16_t)h);
        double want = (h & 0x3ff) + ((h & 0x7c00) ? 1024 : 0);
        want = ldexp(want, (h & 0x7c00) ? (int)(h >> 10 & 31) - 25 : -24) * (h & 0x8000 ? -1 : 1);
        if ((h & 0x7c00) == 0x7c00) {
            assert_true(h & 0x3ff ? isnan(f) : isinf(f));
            assert_int_equal(kern_f32_to_f16(f), h & 0x3ff ? h | 0x200 : h);
        } else if ((double)f != want || !!signbit(f) != h >> 15 || kern_f32_to_f16(f) != h) {
            fail_msg("%04x became %a and %04x", h, (double)f, kern_f32_to_f16(f));
        }
    }
    static const float edge[] = {65504,        65519.996f,     65520,           65536,    1e10f,        0x1p-24f,
                                 0x1p-25f,     0x1.8p-24f,     0x1.000002p-25f, 0x1p-14f, 0x1.ffcp-15f, 0x1.ffep-15f,
                                 0x1.fffp-15f, 1.00048828125f, 1e-40f,          2049,     2051};
    for (size_t i = 0; i < sizeof(edge) / sizeof(*edge); i++) {
        assert_int_equal(kern_f32_to_f16(edge[i]), edge[i] > 65536 ? 0x7c00 : nearest_half(edge[i]));
        assert_int_equal(kern_f32_to_f16(-edge[i]), edge[i] > 65536 ? 0xfc00 : nearest_half(-edge[i]));
    }
    rng_seed(1);
    for (int i = 0; i < 300; i++) {
        float f = ldexpf(rng_float(), (int)rng_below(32) - 20);
        if (fabsf(f) < 65536) assert_int_equal(kern_f32_to_f16(f), nearest_half(f));
    }
}

void check_get(void **state)
{
    static const char *const names[] = {"scalar", "avx2", "avx512", "amx"};
    size_t n = 0;
    for (const struct kernels *t; (t = kernels_nth(n)); n++) {
        assert_in_range(n, 0, 3);
        assert_string_equal(t->name, names[n]);
        assert_ptr_equal(kernels_get(names[n]), t);
    }
    assert_in_range(n, 1, 4);
    if (n == 4) assert_null(kernels_amx_refused());
    for (size_t i = n; i < 4; i++) assert_ptr_equal(kernels_get(names[i]), kernels_nth(n - 1));
    assert_ptr_equal(kernels_get(NULL), kernels_nth(n - 1));
    assert_null(kernels_get(""));
    assert_null(kernels_get("sse9"));
}

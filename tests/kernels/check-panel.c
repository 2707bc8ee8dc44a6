/* SPDX-License-Identifier: MIT */
/* What does not depend on the CPU: decoding, panels, conversions, exp, the choice of a table. */
#include "tests/kernels/check.h"
#include <math.h>
#include <string.h>

/* Value @i of a source row, decoded from the format's description alone. */
static float naive(enum kern_type t, const uint8_t *row, size_t i)
{
    const uint8_t *p = row + i / kern_type_block(t) * kern_type_bytes(t);
    size_t j = i % kern_type_block(t);
    uint16_t h[2];
    float f;
    memcpy(h, p, t == KERN_Q4_1 ? 4 : 2);
    float d = kern_f16_to_f32(h[0]);
    switch (t) {
    case KERN_F32:
        memcpy(&f, p, 4);
        return f;
    case KERN_F16:
        return d;
    case KERN_BF16:
        memset(&f, 0, 4);
        memcpy((uint8_t *)&f + 2, p, 2);
        return f;
    case KERN_Q8_0:
        return d * (float)((int)p[2 + j] - (p[2 + j] > 127 ? 256 : 0));
    case KERN_Q4_0:
        return d * (float)((j < 16 ? p[2 + j] % 16 : p[2 + j - 16] / 16) - 8);
    case KERN_Q4_1:
        f = d * (float)(j < 16 ? p[4 + j] % 16 : p[4 + j - 16] / 16);
        return f + kern_f16_to_f32(h[1]);
    case KERN_Q6_K:
        memcpy(h, p + 208, 2);
        f = kern_f16_to_f32(h[0]) * (float)(int)((p[192 + j / 16] ^ 128) - 128);
        d = (float)((p[j / 128 * 64 + j % 64] >> (j % 128 < 64 ? 0 : 4)) % 16 - 32);
        return f * (d + (float)((p[128 + j / 128 * 32 + j % 32] >> j / 32 % 4 * 2) % 4 * 16));
    case KERN_TYPES:
        break;
    }
    return NAN;
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
    for (size_t i = n; i < 4; i++) assert_ptr_equal(kernels_get(names[i]), kernels_nth(n - 1));
    assert_ptr_equal(kernels_get(NULL), kernels_nth(n - 1));
    assert_null(kernels_get(""));
    assert_null(kernels_get("sse9"));
}

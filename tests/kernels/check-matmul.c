/* SPDX-License-Identifier: MIT */
/* matmul of every type: all variants equal the definition; the definition equals a sum in double. */
#include "kernels/table.h"
#include "tests/kernels/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Offset of a block's f16 scales, one or two of them; MXFP4 and IQ1_M have none. */
static size_t scales_at(enum kern_type t)
{
    switch (t) {
    case KERN_Q2_K:
        return 80;
    case KERN_Q3_K:
        return 108;
    case KERN_Q6_K:
        return 208;
    case KERN_TQ1_0:
        return 52;
    case KERN_TQ2_0:
        return 64;
    default:
        return 0;
    }
}

static size_t n_scales(enum kern_type t)
{
    const bool two = t == KERN_Q4_1 || t == KERN_Q5_1 || t == KERN_Q2_K || t == KERN_Q4_K || t == KERN_Q5_K;
    return t == KERN_MXFP4 || t == KERN_IQ1_M ? 0 : two ? 2 : 1;
}

/* EXTREME: every code and sub-scale at its end of the range. The exponents of MXFP4 keep to those of f16, or (WILD) to
 * what does not overflow. */
static void fill_block(enum kern_type t, uint8_t *p, enum stuff s)
{
    enum taste taste = s == S_WILD ? WILD : TAME;
    const bool upper = rng() & 1;
    uint8_t same = upper ? 0xff : 0x00;
    if (t == KERN_Q8_0) same = upper ? 0x7f : 0x80;
    if (t == KERN_MXFP4) same = upper ? 0x77 : 0xff; /* 12, -12 */
    for (size_t i = 0; i < kern_type_bytes(t); i++) p[i] = s == S_EXTREME ? same : (uint8_t)rng();
    for (size_t i = 192; t == KERN_Q6_K && s == S_EXTREME && i < 208; i++) p[i] = rng_below(4) ? 0x80 : 0x7f;
    if (t == KERN_MXFP4) p[0] = (uint8_t)(s == S_WILD ? rng_below(230) : 118 + rng_below(12));
    uint16_t d = rng_f16(taste); /* IQ1_M's is in the upper 4 bits of four numbers */
    for (size_t i = 0; t == KERN_IQ1_M && i < 4; i++)
        p[49 + 2 * i] = (uint8_t)((p[49 + 2 * i] & 15) | (d >> 4 * i & 15) << 4);
    for (size_t i = 0; i < n_scales(t); i++) {
        uint16_t h = rng_f16(taste);
        memcpy(p + scales_at(t) + 2 * i, &h, 2);
    }
}

void fill_source(enum kern_type t, uint8_t *p, size_t blocks, enum stuff s)
{
    enum taste taste = s == S_WILD ? WILD : TAME;
    for (size_t i = 0; i < blocks; i++, p += kern_type_bytes(t)) {
        if (kern_type_quantized(t)) {
            fill_block(t, p, s);
        } else if (t == KERN_F16) {
            uint16_t h = rng_f16(taste);
            memcpy(p, &h, 2);
        } else {
            float f = rng_value(taste);
            memcpy(p, (uint8_t *)&f + (t == KERN_BF16 ? 2 : 0), kern_type_bytes(t));
        }
    }
}

void fill_acts(struct kern_acts *x, enum kern_type t, size_t n, size_t k, enum stuff s)
{
    enum taste taste = s == S_WILD ? WILD : TAME;
    *x = (struct kern_acts){.n = n, .k = k};
    if (!kern_type_quantized(t)) {
        float *f = mem(n * k * sizeof(*f));
        for (size_t i = 0; i < n * k; i++) f[i] = rng_value(taste);
        x->f = f;
        return;
    }
    size_t nb = n * k / KERN_BLOCK;
    int8_t *q = mem(n * k);
    float *d = mem(2 * nb * sizeof(*d));
    int16_t *sum = mem(2 * nb * sizeof(*sum));
    for (size_t b = 0; b < nb; b++) {
        int8_t same = rng() & 1 ? 127 : -127;
        d[2 * b] = rng_value(taste);
        sum[2 * b] = sum[2 * b + 1] = 0;
        for (size_t i = b * KERN_BLOCK; i < (b + 1) * KERN_BLOCK; i++) {
            q[i] = s == S_EXTREME ? same : (int8_t)((int)rng_below(255) - 127);
            sum[i / 16] = (int16_t)(sum[i / 16] + q[i]);
        }
        d[2 * b + 1] = (float)(sum[2 * b] + sum[2 * b + 1]) * d[2 * b];
    }
    x->q = q;
    x->d = d;
    x->s = sum;
}

/* The places of quantized activations: each block of each token has its own, in groups as struct kern_acts says. */
void check_act(void **state)
{
    enum { TOKENS = 300, BLOCKS = 5 };
    static bool used[TOKENS * BLOCKS];
    for (size_t n = 1; n <= TOKENS; n++)
        for (size_t nb = 1; nb <= BLOCKS; nb += 2) {
            size_t first = 0; /* of the group */
            memset(used, 0, sizeof(used));
            for (size_t t = 0; t < n; t++) {
                const struct kern_act a = kern_act(n, t, nb);
                const size_t left = n - first;
                if (t == first) assert_int_equal(a.step, left < 2 * KERN_GROUP ? left : KERN_GROUP);
                assert_int_equal(a.at, first * nb + t - first);
                for (size_t b = 0; b < nb; b++) {
                    const size_t at = a.at + b * a.step;
                    assert_true(at < n * nb && !used[at]);
                    used[at] = true;
                }
                if (t + 1 == first + a.step) first = t + 1;
            }
            assert_int_equal(first, n);
        }
}

/* The definition against a plain sum of products of decoded values, in double. */
static void check_naive(enum kern_type t, const float *out, size_t ld, const uint8_t *src, size_t stride,
                        const struct kern_acts *x, unsigned rows)
{
    float *w = malloc(x->k * sizeof(*w));
    assert_non_null(w);
    for (unsigned r = 0; r < rows; r++) {
        kern_dequant(t, w, src + r * stride, x->k);
        for (size_t tok = 0; tok < x->n; tok++) {
            double sum = 0, size = 0;
            for (size_t i = 0; i < x->k; i++) {
                const struct kern_act a = kern_act(x->n, tok, x->k / KERN_BLOCK);
                size_t b = a.at + i / KERN_BLOCK * a.step;
                double v =
                    x->f ? (double)x->f[tok * x->k + i] : x->q[b * KERN_BLOCK + i % KERN_BLOCK] * (double)x->d[2 * b];
                sum += v * (double)w[i];
                size += fabs(v * (double)w[i]);
            }
            near_double((double)out[tok * ld + r], sum, (double)(x->k + 8) * 0x1p-23 * size + 1e-30,
                        "%s rows %u n %zu k %zu: row %u token %zu", kern_type_name(t), rows, x->n, x->k, r, tok);
        }
    }
    free(w);
}

static void one(struct check *c, unsigned rows, size_t n, size_t k, enum stuff s)
{
    enum kern_type t = (enum kern_type)c->type;
    size_t stride = k / kern_type_block(t) * kern_type_bytes(t), ld = rows + rng_below(3);
    size_t panels = (rows + KERN_ROWS - 1) / KERN_ROWS, each = kern_panel_bytes(t, k);
    uint8_t *src = mem(stride * rows), *panel = mem(panels * each);
    fill_source(t, src, k / kern_type_block(t) * rows, s);
    for (unsigned p = 0, left = rows; p < panels; p++, left -= KERN_ROWS)
        kern_panel_pack(t, panel + p * each, src + p * KERN_ROWS * stride, stride, left < 16 ? left : 16, k);

    struct kern_acts x;
    fill_acts(&x, t, n, k, s);
    size_t len = (n - 1) * ld + rows;
    float *want = mem(len * sizeof(*want)), *got = mem(len * sizeof(*got));
    c->ref->matmul[t](want, ld, panel, &x, rows);
    c->table->matmul[t](got, ld, panel, &x, rows);
    same_floats(got, want, len, "rows %u n %zu k %zu ld %zu stuff %d", rows, n, k, ld, s);
    /* The bound is for sums of values; the code and the offset of an extreme one may cancel. */
    if (c->table == c->ref && (s == S_TAME || (s == S_EXTREME && n_scales(t) < 2)))
        check_naive(t, got, ld, src, stride, &x, rows);
    mem_reset();
}

void check_matmul(void **state)
{
    CHECK_BEGIN(state);
    size_t unit = kern_type_block((enum kern_type)c->type), most = unit == 1 ? 70 : unit == KERN_BLOCK ? 9 : 4;
    for (size_t n = 1; n <= 30; n++)
        for (int s = S_TAME; s <= S_EXTREME; s++)
            one(c, 1 + rng_below(50), n, unit * (1 + rng_below((uint32_t)most)), (enum stuff)s);
    for (unsigned rows = 1; rows <= 36; rows++)
        for (int s = S_TAME; s <= S_EXTREME; s++)
            one(c, rows, 1 + rng_below(14), unit * (1 + rng_below((uint32_t)most)), (enum stuff)s);
    /* many panels at once, which few tokens may get, as on each maker's CPUs */
    static const struct kern_reading readings[] = {{false, 8, 4096}, {true, 6, 4096}, {true, 8, 8192}};
    const struct kern_reading own = kern_reading;
    for (size_t i = 0; i < 3; i++) {
        kern_reading = readings[i];
        for (unsigned rows = 37; rows <= 290; rows += 1 + rng_below(10))
            one(c, rows, 1 + rng_below(10), unit * (1 + rng_below((uint32_t)most)), S_TAME);
    }
    kern_reading = own;
    for (size_t k = 1; k <= (unit == 256 ? 9 : 40); k++) one(c, 16, 1 + rng_below(14), unit * k, S_WILD);
    for (size_t n = 31; n <= 44; n++) /* columns in several chunks, the last one short */
        one(c, 1 + rng_below(50), n, unit == 1 ? 70 : 1280 - unit * rng_below(unit == 256 ? 3 : 24),
            (enum stuff)(n % 3));
    for (size_t n = 45; n <= 200; n += 1 + rng_below(7)) /* several groups of activations */
        one(c, 1 + rng_below(50), n, unit * (1 + rng_below((uint32_t)most)), (enum stuff)(n % 3));
    for (size_t n = 96; n <= 300; n += 40 + rng_below(30)) /* several groups, and columns in several chunks */
        one(c, 1 + rng_below(50), n, unit == 1 ? 70 : 1280 - unit * rng_below(unit == 256 ? 3 : 24),
            (enum stuff)(n % 3));
    one(c, 48, 13, 2048, S_TAME);
    one(c, 16, 4, 5632, S_EXTREME);
    one(c, 16, 100, unit == 256 ? 256 : 64, S_TAME);
}

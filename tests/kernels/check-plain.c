/* SPDX-License-Identifier: MIT */
/* The operations of feed-forwards without a gate, and LayerNorm. */
#include "tests/kernels/check.h"
#include <math.h>

static float *values(size_t n, enum taste t, float scale)
{
    float *p = mem(n * sizeof(*p));
    for (size_t i = 0; i < n; i++) p[i] = scale * rng_value(t);
    return p;
}

static void near_layernorm(const float *got, const float *x, const float *w, const float *b, size_t k)
{
    double sum = 0, ss = 0;
    for (size_t i = 0; i < k; i++) sum += (double)x[i];
    const double mean = sum / (double)k;
    for (size_t i = 0; i < k; i++) ss += ((double)x[i] - mean) * ((double)x[i] - mean);
    const double r = 1 / sqrt(ss / (double)k + 1e-5);
    for (size_t i = 0; i < k; i++) {
        double v = ((double)x[i] - mean) * r * (double)w[i] + (b ? (double)b[i] : 0);
        near_double((double)got[i], v, 1e-4, "layernorm k %zu value %zu", k, i);
    }
}

static void one_layernorm(struct check *c, size_t k, enum taste taste, bool in_place, bool bias)
{
    float *x = values(k, taste, 1), *w = values(k, TAME, 1), *b = bias ? values(k, TAME, 1) : NULL;
    float *want = mem(k * 4), *got = in_place ? mem_copy(x, k * 4) : mem(k * 4);
    c->ref->layernorm(want, x, w, b, k, 1e-5f);
    c->table->layernorm(got, in_place ? got : x, w, b, k, 1e-5f);
    same_floats(got, want, k, "layernorm k %zu taste %d bias %d", k, taste, bias);
    if (taste == TAME && k > 1) near_layernorm(got, x, w, b, k);
    mem_reset();
}

void check_layernorm(void **state)
{
    CHECK_BEGIN(state);
    for (size_t k = 1; k <= 100; k++)
        for (int i = 0; i < 8; i++) one_layernorm(c, k, i & 1 ? WILD : TAME, i & 2, i & 4);
    one_layernorm(c, 2048, TAME, false, true);
    one_layernorm(c, 5003, TAME, true, false);
}

void check_gelu(void **state)
{
    CHECK_BEGIN(state);
    for (size_t n = 1; n <= 200; n++) {
        float *x = values(n, n % 2 ? WILD : TAME, n % 3 == 0 ? 10 : 2);
        float *want = mem_copy(x, n * 4), *got = mem_copy(x, n * 4);
        c->ref->gelu(want, n);
        c->table->gelu(got, n);
        same_floats(got, want, n, "gelu n %zu", n);
        for (size_t i = 0; i < n; i++) {
            double v = (double)x[i];
            if (fabs(v) > 1e4) continue;
            double y = 0.5 * v * (1 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
            near_double((double)got[i], y, fabs(y) * 4e-6 + 1e-6, "gelu value %zu of %g", i, v);
        }
        mem_reset();
    }
}

void check_gelu_erf(void **state)
{
    CHECK_BEGIN(state);
    for (size_t n = 1; n <= 200; n++) {
        float *x = values(n, n % 2 ? WILD : TAME, n % 3 == 0 ? 10 : 2), *up = values(n, TAME, 2);
        x[n / 2] = n % 7 ? x[n / 2] : NAN;
        float *want = mem_copy(x, n * 4), *got = mem_copy(x, n * 4);
        const bool alone = n % 5 == 0;
        c->ref->gelu_erf(want, alone ? NULL : up, n);
        c->table->gelu_erf(got, alone ? NULL : up, n);
        same_floats(got, want, n, "gelu_erf n %zu", n);
        for (size_t i = 0; i < n; i++) {
            double v = (double)x[i], by = alone ? 1 : (double)up[i];
            if (!(fabs(v) <= 1e4)) continue;
            double y = 0.5 * v * (1 + erf(v * 0.7071067811865476)) * by;
            near_double((double)got[i], y, fabs(v * by) * 5e-7 + 1e-40, "gelu_erf value %zu of %g", i, v);
        }
        mem_reset();
    }
}

void check_relu_sqr(void **state)
{
    CHECK_BEGIN(state);
    for (size_t n = 1; n <= 200; n++) {
        float *x = values(n, n % 2 ? WILD : TAME, 3);
        x[n / 2] = n % 7 ? x[n / 2] : NAN;
        float *want = mem_copy(x, n * 4), *got = mem_copy(x, n * 4);
        c->ref->relu_sqr(want, n);
        c->table->relu_sqr(got, n);
        same_floats(got, want, n, "relu_sqr n %zu", n);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(isnan(got[i]) != 0, isnan(x[i]) != 0);
            if (!isnan(x[i])) assert_true(got[i] == (x[i] > 0 ? x[i] * x[i] : 0));
        }
        mem_reset();
    }
}

void check_xielu(void **state)
{
    CHECK_BEGIN(state);
    for (size_t n = 1; n <= 200; n++) {
        const float by[4] = {0.1f + fabsf(rng_float()), 0.5f + fabsf(rng_float()), 0.5f, n % 3 ? -1e-6f : -0.25f};
        float *x = values(n, n % 2 ? WILD : TAME, n % 3 == 0 ? 10 : 2);
        float *want = mem_copy(x, n * 4), *got = mem_copy(x, n * 4);
        c->ref->xielu(want, by, n);
        c->table->xielu(got, by, n);
        same_floats(got, want, n, "xielu n %zu", n);
        for (size_t i = 0; i < n; i++) {
            double v = (double)x[i], y = (double)by[2] * v;
            if (fabs(v) > 1e4) continue;
            y += v > 0 ? (double)by[0] * v * v : (expm1(fmin(v, (double)by[3])) - v) * (double)by[1];
            near_double((double)got[i], y, fabs(y) * 4e-6 + 1e-6, "xielu value %zu of %g", i, v);
        }
        mem_reset();
    }
}

/* SPDX-License-Identifier: MIT */
/* The operations over one vector. */
#include "tests/kernels/check.h"
#include <math.h>
#include <string.h>

static float *values(size_t n, enum taste t)
{
    float *p = mem(n * sizeof(*p));
    for (size_t i = 0; i < n; i++) p[i] = rng_value(t);
    return p;
}

static void one_quantize(struct check *c, size_t blocks, enum taste taste, float scale)
{
    const size_t k = blocks * KERN_BLOCK, step = 1 + rng_below(4), all = (blocks - 1) * step + 1;
    float *x = values(k, taste);
    for (size_t i = 0; i < k; i++) x[i] *= scale;
    int8_t *q[2] = {mem(all * KERN_BLOCK), mem(all * KERN_BLOCK)};
    float *d[2] = {mem(all * 8), mem(all * 8)};
    int16_t *s[2] = {mem(all * 4), mem(all * 4)};
    c->ref->quantize(q[0], d[0], s[0], x, k, step);
    c->table->quantize(q[1], d[1], s[1], x, k, step);
    same_floats(d[1], d[0], 2 * all, "quantize d, k %zu step %zu", k, step); /* and nothing between the blocks */
    same_bytes(q[1], q[0], all * KERN_BLOCK, "quantize q, k %zu step %zu", k, step);
    same_bytes(s[1], s[0], all * 4, "quantize s, k %zu step %zu", k, step);
    for (size_t b = 0; b < blocks; b++) {
        const int8_t *code = q[0] + b * step * KERN_BLOCK;
        const float dx = d[0][2 * b * step];
        int32_t sum[2] = {0};
        for (size_t i = 0; i < KERN_BLOCK; i++) {
            sum[i / 16] += code[i];
            assert_in_range(code[i] + 127, 0, 254);
            if (dx < 1e-37f || isinf(dx)) continue; /* a subnormal scale is coarse */
            near_double(code[i] * (double)dx, (double)x[b * KERN_BLOCK + i], 0.5001 * (double)dx, "quantize value %zu",
                        i);
        }
        assert_true(sum[0] == s[0][2 * b * step] && sum[1] == s[0][2 * b * step + 1]);
        assert_true(d[0][2 * b * step + 1] == (float)(sum[0] + sum[1]) * dx);
    }
    mem_reset();
}

void check_quantize(void **state)
{
    CHECK_BEGIN(state);
    for (size_t blocks = 1; blocks <= 40; blocks++) {
        one_quantize(c, blocks, TAME, 1);
        one_quantize(c, blocks, WILD, 1);
        one_quantize(c, blocks, TAME, 1e-43f); /* d is subnormal: q is clamped */
        one_quantize(c, blocks, TAME, 0);
        one_quantize(c, blocks, TAME, 1.7e38f);
    }
    /* halves round to even: x/d is exact when amax is 127 */
    float *x = mem(KERN_BLOCK * 4), d[2];
    int8_t q[KERN_BLOCK];
    int16_t s[2];
    for (int i = 0; i < KERN_BLOCK; i++) x[i] = (float)i - 15.5f;
    x[31] = -127;
    c->table->quantize(q, d, s, x, KERN_BLOCK, 1);
    for (int i = 0; i < KERN_BLOCK - 1; i++) assert_int_equal(q[i], (int)nearbyint(i - 15.5));
    assert_true(d[0] == 1 && d[1] == (float)(s[0] + s[1]) && q[31] == -127);
    mem_reset();
}

static void one_rmsnorm(struct check *c, size_t k, enum taste taste, bool in_place)
{
    float *x = values(k, taste), *w = values(k, TAME);
    float *want = mem(k * 4), *got = in_place ? mem_copy(x, k * 4) : mem(k * 4);
    c->ref->rmsnorm(want, x, w, k, 1e-5f);
    c->table->rmsnorm(got, in_place ? got : x, w, k, 1e-5f);
    same_floats(got, want, k, "rmsnorm k %zu taste %d", k, taste);
    if (taste == TAME) {
        double ss = 0;
        for (size_t i = 0; i < k; i++) ss += (double)x[i] * (double)x[i];
        double r = 1 / sqrt(ss / (double)k + 1e-5);
        for (size_t i = 0; i < k; i++) {
            double v = (double)x[i] * r * (double)w[i];
            near_double((double)got[i], v, fabs(v) * 1e-5, "rmsnorm k %zu value %zu", k, i);
        }
    }
    mem_reset();
}

void check_rmsnorm(void **state)
{
    CHECK_BEGIN(state);
    for (size_t k = 1; k <= 100; k++)
        for (int i = 0; i < 4; i++) one_rmsnorm(c, k, i & 1 ? WILD : TAME, i & 2);
    one_rmsnorm(c, 2048, TAME, false);
    one_rmsnorm(c, 5003, TAME, true);
}

static void one_rope(struct check *c, size_t heads, size_t dim, size_t rot, bool neox, enum taste taste)
{
    size_t n = heads * dim;
    float *x = values(n, taste), *cs = mem(rot * 4);
    for (size_t i = 0; i < rot / 2; i++) {
        double angle = 3 * (double)rng_float();
        cs[i] = (float)cos(angle), cs[rot / 2 + i] = (float)sin(angle);
    }
    float *want = mem_copy(x, n * 4), *got = mem_copy(x, n * 4);
    c->ref->rope(want, heads, dim, rot, cs, neox);
    c->table->rope(got, heads, dim, rot, cs, neox);
    same_floats(got, want, n, "rope heads %zu dim %zu rot %zu neox %d", heads, dim, rot, neox);
    for (size_t h = 0; taste == TAME && h < heads; h++)
        for (size_t i = 0; i < dim; i++) {
            size_t pair = neox ? i % (rot / 2 ? rot / 2 : 1) : i / 2, at = h * dim;
            double v = (double)x[at + i];
            if (i < rot) {
                size_t i0 = neox ? pair : 2 * pair, i1 = neox ? pair + rot / 2 : 2 * pair + 1;
                double x0 = (double)x[at + i0], x1 = (double)x[at + i1], cosine = (double)cs[pair],
                       sine = (double)cs[rot / 2 + pair];
                v = i == i0 ? x0 * cosine - x1 * sine : x0 * sine + x1 * cosine;
            }
            near_double((double)got[at + i], v, 1e-6, "rope dim %zu rot %zu value %zu", dim, rot, i);
        }
    mem_reset();
}

void check_rope(void **state)
{
    CHECK_BEGIN(state);
    for (size_t dim = 2; dim <= 256; dim += dim < 80 ? 2 : 16)
        for (int neox = 0; neox < 2; neox++) {
            one_rope(c, 1 + rng_below(4), dim, dim, neox, TAME);
            one_rope(c, 1 + rng_below(4), dim, dim, neox, WILD);
            one_rope(c, 1 + rng_below(4), dim + rng_below(20), 2 * rng_below((uint32_t)dim / 2 + 1), neox, TAME);
        }
}

/* A million arguments of exp, which one rounding in the wrong place changes seldom: below -1, silu(x) shows all of
 * exp(-x)'s bits. */
static void many_silus(struct check *c)
{
    size_t n = (size_t)1 << 20;
    float *up = mem(n * 4), *want = mem(n * 4), *got = mem(n * 4);
    for (size_t i = 0; i < n; i++) {
        got[i] = want[i] = -1 - 87 * (float)i / (float)n;
        up[i] = 1;
    }
    c->ref->silu_mul(want, up, n);
    c->table->silu_mul(got, up, n);
    same_floats(got, want, n, "silu_mul of many");
    mem_reset();
}

void check_silu_mul(void **state)
{
    CHECK_BEGIN(state);
    many_silus(c);
    for (size_t n = 1; n <= 200; n++) {
        float scale = n % 3 == 0 ? 60 : 3;
        float *g = values(n, n % 2 ? WILD : TAME), *up = values(n, TAME);
        for (size_t i = 0; i < n; i++) g[i] *= scale;
        float *want = mem_copy(g, n * 4), *got = mem_copy(g, n * 4);
        c->ref->silu_mul(want, up, n);
        c->table->silu_mul(got, up, n);
        same_floats(got, want, n, "silu_mul n %zu", n);
        for (size_t i = 0; i < n; i++) {
            double v = (double)g[i] / (1 + exp(-(double)g[i])) * (double)up[i];
            if (fabs(v) < 1e30) near_double((double)got[i], v, fabs(v) * 1e-6 + 1e-35, "silu_mul value %zu", i);
        }
        mem_reset();
    }
}

void check_gelu_mul(void **state)
{
    CHECK_BEGIN(state);
    for (size_t n = 1; n <= 200; n++) {
        float scale = n % 3 == 0 ? 10 : 2;
        float *g = values(n, n % 2 ? WILD : TAME), *up = values(n, TAME);
        for (size_t i = 0; i < n; i++) g[i] *= scale;
        float *want = mem_copy(g, n * 4), *got = mem_copy(g, n * 4);
        c->ref->gelu_mul(want, up, n);
        c->table->gelu_mul(got, up, n);
        same_floats(got, want, n, "gelu_mul n %zu", n);
        for (size_t i = 0; i < n; i++) {
            double x = (double)g[i];
            if (fabs(x) > 1e4) continue;
            double v = 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))) * (double)up[i];
            near_double((double)got[i], v, fabs(v) * 4e-6 + 1e-6, "gelu_mul value %zu of %g", i, x);
        }
        mem_reset();
    }
}

void check_swiglu_clamped(void **state)
{
    CHECK_BEGIN(state);
    for (size_t n = 1; n <= 200; n++) {
        float scale = n % 3 == 0 ? 10 : 2;
        float *g = values(n, n % 2 ? WILD : TAME), *up = values(n, n % 5 ? TAME : WILD);
        for (size_t i = 0; i < n; i++) g[i] *= scale, up[i] *= scale;
        g[n / 2] = n % 7 ? g[n / 2] : NAN;
        up[n / 3] = n % 11 ? up[n / 3] : NAN;
        float *want = mem_copy(g, n * 4), *got = mem_copy(g, n * 4);
        c->ref->swiglu_clamped(want, up, n);
        c->table->swiglu_clamped(got, up, n);
        same_floats(got, want, n, "swiglu_clamped n %zu", n);
        for (size_t i = 0; i < n; i++) {
            double x = fmin((double)g[i], 7), u = fmax(fmin((double)up[i], 7), -7);
            assert_int_equal(isnan(got[i]) != 0, isnan(g[i]) || isnan(up[i]));
            if (isnan(got[i])) continue;
            double v = x / (1 + exp(-1.702 * x)) * (u + 1);
            near_double((double)got[i], v, fabs(v) * 4e-6 + 1e-6, "swiglu_clamped value %zu of %g", i, x);
        }
        mem_reset();
    }
}

void check_scale(void **state)
{
    CHECK_BEGIN(state);
    for (size_t n = 1; n <= 100; n++) {
        float *x = values(n, WILD), s = rng_float();
        float *want = mem_copy(x, n * 4), *got = mem_copy(x, n * 4);
        for (size_t i = 0; i < n; i++) want[i] = (float)((double)x[i] * (double)s);
        c->table->scale(got, s, n);
        same_floats(got, want, n, "scale n %zu", n);
        mem_reset();
    }
}

void check_softcap(void **state)
{
    CHECK_BEGIN(state);
    for (size_t n = 1; n <= 200; n++) {
        float cap = n % 2 ? 30 : 0.5f, *x = values(n, n % 3 ? TAME : WILD);
        for (size_t i = 0; i < n; i++) x[i] *= n % 5 ? 20 : 2000;
        float *want = mem_copy(x, n * 4), *got = mem_copy(x, n * 4);
        c->ref->softcap(want, cap, n);
        c->table->softcap(got, cap, n);
        same_floats(got, want, n, "softcap n %zu", n);
        for (size_t i = 0; i < n; i++)
            near_double((double)got[i], (double)cap * tanh((double)x[i] / (double)cap), (double)cap * 2e-7,
                        "softcap value %zu", i);
        mem_reset();
    }
}

void check_add(void **state)
{
    CHECK_BEGIN(state);
    for (size_t n = 1; n <= 200; n++) {
        float *x = values(n, WILD), *y = values(n, WILD);
        float *want = mem_copy(x, n * 4), *got = mem_copy(x, n * 4);
        for (size_t i = 0; i < n; i++) want[i] = (float)((double)x[i] + (double)y[i]);
        c->table->add(got, y, n);
        same_floats(got, want, n, "add n %zu", n);
        mem_reset();
    }
}

void check_logsumexp(void **state)
{
    CHECK_BEGIN(state);
    for (size_t n = 1; n <= 1000; n += n < 100 ? 1 : 97) {
        for (int mode = 0; mode < 4; mode++) {
            float *x = mem(n * 4);
            for (size_t i = 0; i < n; i++) {
                x[i] = rng_float() * (mode == 1 ? 40 : 3);
                if (mode == 2 && rng() & 1) x[i] = -INFINITY;
                if (mode == 3) x[i] = rng() & 1 ? -0.0f : n % 2 ? 0.0f : -0.0f;
            }
            float got[2], want[2];
            c->ref->logsumexp(&want[0], &want[1], x, n);
            c->table->logsumexp(&got[0], &got[1], x, n);
            same_floats(got, want, 2, "logsumexp n %zu mode %d", n, mode);
            double max = -INFINITY, sum = 0;
            for (size_t i = 0; i < n; i++) max = fmax(max, (double)x[i]);
            assert_true((double)got[0] == max && !(got[0] == 0 && signbit(got[0])));
            if (max == -INFINITY) {
                assert_true(got[1] == -INFINITY);
            } else {
                for (size_t i = 0; i < n; i++) sum += exp((double)x[i] - max);
                near_double((double)got[1], log(sum), 1e-5, "logsumexp n %zu mode %d", n, mode);
            }
            mem_reset();
        }
    }
}

void check_mul(void **state)
{
    CHECK_BEGIN(state);
    for (size_t n = 1; n <= 100; n++) {
        float *x = values(n, WILD), *y = values(n, TAME), *want = mem_copy(x, n * 4), *got = mem_copy(x, n * 4);
        for (size_t i = 0; i < n; i++) want[i] = (float)((double)x[i] * (double)y[i]);
        c->table->mul(got, x, y, n);
        same_floats(got, want, n, "mul n %zu", n);
        c->table->mul(x, x, y, n);
        same_floats(x, want, n, "mul in place n %zu", n);
        mem_reset();
    }
}

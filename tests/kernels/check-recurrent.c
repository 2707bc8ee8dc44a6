/* SPDX-License-Identifier: MIT */
/* The operations of recurrent layers. */
#include "tests/kernels/check.h"
#include <math.h>
#include <string.h>

#define TAPS_MOST 6

static float *values(size_t n, enum taste t)
{
    float *p = mem(n * sizeof(*p));
    for (size_t i = 0; i < n; i++) p[i] = rng_value(t);
    return p;
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static void one_conv(struct check *c, size_t n, size_t taps, size_t ld, bool bias, bool act, enum taste taste)
{
    const float *x[TAPS_MOST], *b = bias ? values(n, TAME) : NULL, *w = values((taps - 1) * ld + n, taste);
    for (size_t j = 0; j < taps; j++) x[j] = values(n, taste);
    float *want = mem(n * 4), *got = mem(n * 4);
    c->ref->recurrent.conv(want, x, w, ld, b, taps, n, act);
    c->table->recurrent.conv(got, x, w, ld, b, taps, n, act);
    same_floats(got, want, n, "conv n %zu taps %zu ld %zu bias %d silu %d", n, taps, ld, bias, act);
    for (size_t i = 0; taste == TAME && i < n; i++) {
        double v = 0;
        for (size_t j = 0; j < taps; j++) v += (double)w[j * ld + i] * (double)x[j][i];
        if (b) v += (double)b[i];
        near_double((double)got[i], act ? silu(v) : v, 1e-5, "conv n %zu value %zu", n, i);
    }
    mem_reset();
}

void check_conv(void **state)
{
    CHECK_BEGIN(state);
    for (size_t n = 1; n <= 100; n++)
        for (size_t taps = 1; taps <= TAPS_MOST; taps++) {
            one_conv(c, n, taps, n + rng_below(20), n & 1, taps & 1, TAME);
            one_conv(c, n, taps, n, n & 2, taps & 2, WILD);
        }
}

static void one_l2norm(struct check *c, size_t k, enum taste taste, bool in_place, float by)
{
    float *x = values(k, taste);
    for (size_t i = 0; i < k; i++) x[i] *= by;
    float *want = mem(k * 4), *got = in_place ? mem_copy(x, k * 4) : mem(k * 4), scale = 1 + rng_float() / 4;
    c->ref->l2norm(want, x, k, 1e-6f, scale);
    c->table->l2norm(got, in_place ? got : x, k, 1e-6f, scale);
    same_floats(got, want, k, "l2norm k %zu taste %d", k, taste);
    double ss = 0;
    for (size_t i = 0; i < k; i++) ss += (double)x[i] * (double)x[i];
    for (size_t i = 0; taste == TAME && i < k; i++) {
        double v = (double)x[i] * (double)scale / fmax(sqrt(ss), 1e-6);
        near_double((double)got[i], v, fabs(v) * 1e-5, "l2norm k %zu value %zu", k, i);
    }
    mem_reset();
}

void check_l2norm(void **state)
{
    CHECK_BEGIN(state);
    for (size_t k = 1; k <= 100; k++)
        for (int i = 0; i < 4; i++) one_l2norm(c, k, i & 1 ? WILD : TAME, i & 2, 1);
    one_l2norm(c, 128, TAME, true, 1e-9f); /* shorter than eps */
    one_l2norm(c, 128, TAME, true, 0);
    one_l2norm(c, 5003, TAME, false, 1);
}

void check_softplus(void **state)
{
    CHECK_BEGIN(state);
    for (size_t n = 1; n <= 400; n++) {
        float *x = values(n, n % 3 ? TAME : WILD);
        for (size_t i = 0; i < n; i++) x[i] *= n % 5 ? 4 : 60;
        float *want = mem_copy(x, n * 4), *got = mem_copy(x, n * 4);
        c->ref->softplus(want, n);
        c->table->softplus(got, n);
        same_floats(got, want, n, "softplus n %zu", n);
        for (size_t i = 0; i < n; i++) {
            double v = fmax((double)x[i], 0) + log1p(exp(-fabs((double)x[i])));
            if (isfinite(v)) near_double((double)got[i], v, v * 3e-7 + 2e-38, "softplus of %g", (double)x[i]);
        }
        mem_reset();
    }
}

void check_sigmoid_mul(void **state)
{
    CHECK_BEGIN(state);
    for (size_t n = 1; n <= 200; n++) {
        float *x = values(n, n % 3 ? TAME : WILD), *gate = values(n, n % 2 ? TAME : WILD);
        for (size_t i = 0; i < n; i++) gate[i] *= n % 5 ? 3 : 60;
        float *want = mem_copy(x, n * 4), *got = mem_copy(x, n * 4);
        c->ref->sigmoid_mul(want, gate, n);
        c->table->sigmoid_mul(got, gate, n);
        same_floats(got, want, n, "sigmoid_mul n %zu", n);
        for (size_t i = 0; i < n; i++) {
            double v = (double)x[i] / (1 + exp(-(double)gate[i]));
            near_double((double)got[i], v, fabs(v) * 1e-6 + 1e-37, "sigmoid_mul value %zu", i);
        }
        mem_reset();
    }
}

/* --- the delta rule --- */

/* The same in double, and S *= decay first. */
static void plain_delta(const struct kern_delta *a, const double *from, double *o)
{
    double s[64 * 64];
    assert_true(a->dk * a->dv <= 64 * 64);
    memcpy(s, from, a->dk * a->dv * sizeof(*s));
    for (size_t t = 0; t < a->n; t++) {
        const float *k = a->k + t * a->ld, *q = a->q + t * a->ld, *v = a->v + t * a->ld_v;
        for (size_t j = 0; j < a->dv; j++) {
            double u = 0, sum = 0;
            for (size_t i = 0; i < a->dk; i++) {
                s[i * a->dv + j] *= (double)a->decay[t * a->ld_gate];
                u += (double)k[i] * s[i * a->dv + j];
            }
            double d = ((double)v[j] - u) * (double)a->beta[t * a->ld_gate];
            for (size_t i = 0; i < a->dk; i++) {
                s[i * a->dv + j] += (double)k[i] * d;
                sum += (double)q[i] * s[i * a->dv + j];
            }
            o[t * a->dv + j] = sum;
        }
    }
}

/* @parts: the tokens are cut into calls. */
static void one_delta(struct check *c, size_t n, size_t dk, size_t dv, enum taste taste, bool parts)
{
    const size_t ld = 2 * dk + rng_below(9), ld_v = dv + rng_below(9), ld_o = dv + rng_below(9),
                 ld_gate = 1 + rng_below(3);
    const size_t gates = (n - 1) * ld_gate + 1, outs = (n - 1) * ld_o + dv;
    float *x = values((n - 1) * ld + 2 * dk, taste), *v = values((n - 1) * ld_v + dv, taste), *decay = mem(gates * 4),
          *beta = mem(gates * 4);
    for (size_t i = 0; i < gates; i++) decay[i] = 0.5f + rng_float() / 8, beta[i] = 0.5f + rng_float() / 8;
    for (size_t t = 0; t < n; t++) /* k of length 1, or the state grows */
        for (size_t i = 0; i < dk; i++) x[t * ld + dk + i] /= sqrtf((float)dk);
    float *from = values(dk * dv, taste);
    float *s[2] = {mem_copy(from, dk * dv * 4), mem_copy(from, dk * dv * 4)}, *o[2] = {mem(outs * 4), mem(outs * 4)};
    struct kern_delta a = {.q = x, .k = x + dk, .v = v, .decay = decay, .beta = beta, .o = o[0], .state = s[0]};
    a.ld = ld, a.ld_v = ld_v, a.ld_gate = ld_gate, a.ld_o = ld_o, a.n = n, a.dk = dk, a.dv = dv;
    c->ref->recurrent.delta(&a);
    struct kern_delta b = a;
    b.state = s[1], b.o = o[1];
    for (size_t at = 0; at < n; at += b.n) {
        b.n = parts ? 1 + rng_below((uint32_t)(n - at)) : n;
        b.q = x + at * ld, b.k = b.q + dk, b.v = v + at * ld_v;
        b.decay = decay + at * ld_gate, b.beta = beta + at * ld_gate, b.o = o[1] + at * ld_o;
        c->table->recurrent.delta(&b);
    }
    same_floats(s[1], s[0], dk * dv, "delta state, n %zu dk %zu dv %zu", n, dk, dv);
    same_floats(o[1], o[0], outs, "delta o, n %zu dk %zu dv %zu", n, dk, dv);
    if (taste == TAME && dk * dv <= 64 * 64) {
        double *want = mem(n * dv * 8), *first = mem(dk * dv * 8);
        for (size_t i = 0; i < dk; i++)
            for (size_t j = 0; j < dv; j++) first[i * dv + j] = (double)from[j / 16 * 16 * dk + i * 16 + j % 16];
        plain_delta(&a, first, want);
        for (size_t t = 0; t < n; t++)
            for (size_t j = 0; j < dv; j++)
                near_double((double)o[1][t * ld_o + j], want[t * dv + j], 1e-4, "delta token %zu value %zu", t, j);
    }
    mem_reset();
}

void check_delta(void **state)
{
    CHECK_BEGIN(state);
    for (size_t i = 0; i < 300; i++) {
        const size_t n = 1 + rng_below(7), dk = 1 + rng_below(64), dv = 16 * (1 + rng_below(4));
        one_delta(c, n, dk, dv, i % 2 ? TAME : WILD, i % 3);
    }
    one_delta(c, 9, 128, 128, TAME, false);
    one_delta(c, 1, 128, 112, TAME, false);
}

static void plain_ssm(const struct kern_ssm *a, double *s, double *y)
{
    for (size_t t = 0; t < a->n; t++)
        for (size_t p = 0; p < a->dim; p++) {
            const double x = (double)a->x[t * a->ld + p], dt = (double)a->dt[t * a->ld];
            double sum = x * (double)a->d;
            for (size_t i = 0; i < a->rows; i++) {
                double *at = &s[i * a->dim + p];
                *at = *at * exp(dt * (double)a->a) + (double)a->b[t * a->ld + i] * x * dt;
                sum += *at * (double)a->c[t * a->ld + i];
            }
            y[t * a->dim + p] = sum;
        }
}

/* @parts: the tokens are cut into calls. */
static void one_ssm(struct check *c, size_t n, size_t rows, size_t dim, enum taste taste, bool parts)
{
    const size_t width = dim + 2 * rows + 1, ld = width + rng_below(9), ld_y = dim + rng_below(9);
    const size_t outs = (n - 1) * ld_y + dim;
    float *x = values((n - 1) * ld + width, taste), *from = values(rows * dim, taste);
    for (size_t t = 0; t < n; t++) x[t * ld + width - 1] = 0.5f + rng_float() / 2;
    float *s[2] = {mem_copy(from, rows * dim * 4), mem_copy(from, rows * dim * 4)},
          *y[2] = {mem(outs * 4), mem(outs * 4)};
    struct kern_ssm a = {.x = x, .b = x + dim, .c = x + dim + rows, .dt = x + width - 1, .y = y[0], .state = s[0]};
    a.a = -0.3f, a.d = 0.7f, a.ld = ld, a.ld_y = ld_y, a.n = n, a.rows = rows, a.dim = dim;
    c->ref->recurrent.ssm(&a);
    struct kern_ssm b = a;
    b.state = s[1];
    for (size_t at = 0; at < n; at += b.n) {
        b.n = parts ? 1 + rng_below((uint32_t)(n - at)) : n;
        b.x = x + at * ld, b.b = b.x + dim, b.c = b.b + rows, b.dt = b.c + rows, b.y = y[1] + at * ld_y;
        c->table->recurrent.ssm(&b);
    }
    same_floats(s[1], s[0], rows * dim, "ssm state, n %zu rows %zu dim %zu", n, rows, dim);
    for (size_t t = 0; t < n; t++) same_floats(y[1] + t * ld_y, y[0] + t * ld_y, dim, "ssm y, token %zu", t);
    if (taste == TAME) {
        double *want = mem(n * dim * 8), *first = mem(rows * dim * 8);
        for (size_t i = 0; i < rows; i++)
            for (size_t p = 0; p < dim; p++) first[i * dim + p] = (double)from[p / 16 * 16 * rows + i * 16 + p % 16];
        plain_ssm(&a, first, want);
        for (size_t t = 0; t < n; t++)
            for (size_t p = 0; p < dim; p++)
                near_double((double)y[1][t * ld_y + p], want[t * dim + p], 2e-4, "ssm token %zu value %zu", t, p);
    }
    mem_reset();
}

void check_ssm(void **state)
{
    CHECK_BEGIN(state);
    for (size_t i = 0; i < 300; i++)
        one_ssm(c, 1 + rng_below(7), 1 + rng_below(64), 16 * (1 + rng_below(4)), i % 2 ? TAME : WILD, i % 3);
    one_ssm(c, 9, 128, 64, TAME, false);
    one_ssm(c, 1, 128, 80, TAME, false);
}

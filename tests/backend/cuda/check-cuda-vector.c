/* SPDX-License-Identifier: MIT */
/* Join and norm, activations, logits and the largest of them. */
#include "tests/backend/cuda/check-cuda.h"
#include <math.h>
#include <string.h>

static float *random_floats(size_t n, enum taste t)
{
    float *x = mem(n * sizeof(*x));
    for (size_t i = 0; i < n; i++) x[i] = rng_value(t);
    return x;
}

static float *up_floats(const float *x, size_t n)
{
    return x ? dev_up(x, n * sizeof(*x)) : NULL;
}

void check_norm_row(const struct norm_case *c, float *x, float *h, const float *bias, const float *post, const float *w,
                    const float *scale, float *out)
{
    if (c->h) {
        if (c->bias) ref->add(h, bias, c->k);
        if (c->post) ref->rmsnorm(h, h, post, c->k, 1e-5f);
        if (c->residual != 1) ref->scale(h, c->residual, c->k);
        ref->add(x, h, c->k);
        if (c->out_scale) ref->scale(x, *scale, c->k);
    }
    if (c->norm)
        ref->rmsnorm(out, x, w, c->k, 1e-5f);
    else
        memcpy(out, x, c->k * sizeof(*x));
}

static void one_norm(struct norm_case c)
{
    const size_t k = c.k, all = c.n * k, bytes = all * sizeof(float);
    float *x = random_floats(all, c.taste), *h = random_floats(all, c.taste), *out = mem(bytes), *to = mem(bytes);
    const float *bias = random_floats(k, TAME), *post = random_floats(k, TAME), *w = random_floats(k, TAME);
    const float *scale = random_floats(1, TAME);
    uint32_t *gather = mem(c.n * sizeof(*gather));
    const size_t rows = c.gather ? (c.n + 1) / 2 : c.n;
    struct cuda_norm a = {.x = up_floats(x, all),
                          .h = c.h ? up_floats(h, all) : NULL,
                          .bias = c.bias ? up_floats(bias, k) : NULL,
                          .post = c.post ? up_floats(post, k) : NULL,
                          .out_scale = c.out_scale ? up_floats(scale, 1) : NULL,
                          .w = c.norm ? up_floats(w, k) : NULL,
                          .f = dev_poisoned(bytes),
                          .eps = 1e-5f,
                          .residual = c.residual,
                          .k = (uint32_t)k};
    for (size_t i = 0; i < c.n; i++) gather[i] = (uint32_t)(c.n - 1 - i * 2 % c.n);
    if (c.gather) a.gather = dev_up(gather, c.n * sizeof(*gather)), a.to = dev_poisoned(bytes);
    if (c.quantized) a.q = dev_acts(rows, k);
    for (size_t i = 0; i < rows; i++) {
        const size_t from = c.gather ? gather[i] : i;
        check_norm_row(&c, x + from * k, h + from * k, bias, post, w, scale, out + i * k);
        memcpy(to + i * k, x + from * k, k * sizeof(*to));
    }
    dev_run("cuda_norm",
            (struct cuda_grid){(unsigned)rows, 1, k % 3 ? 256 : 1024, (unsigned)((2 * k + 1) * sizeof(float))}, &a);
    same_floats(dev_down(a.f, bytes), out, rows * k, "norm n %zu k %zu", c.n, k);
    same_floats(dev_down(c.gather ? a.to : a.x, bytes), to, rows * k, "join n %zu k %zu", c.n, k);
    if (c.quantized) same_acts(&a.q, out, rows, k, "norm");
    dev_reset();
}

void check_cuda_norm(void **state)
{
    rng_seed(1);
    for (unsigned bits = 0; bits < 128; bits++)
        one_norm((struct norm_case){.n = 1 + rng_below(5),
                                    .k = 32 * (1 + rng_below(70)),
                                    .h = bits & 1,
                                    .bias = bits & 2,
                                    .post = bits & 4,
                                    .norm = bits & 8,
                                    .gather = bits & 16,
                                    .out_scale = bits & 32,
                                    .quantized = true,
                                    .residual = bits & 64 ? 0.22f : 1,
                                    .taste = bits % 5 ? TAME : WILD});
    for (size_t k = 1; k < 70; k++)
        one_norm((struct norm_case){.n = 2, .k = k, .h = k % 2, .norm = true, .residual = 1, .taste = TAME});
    one_norm((struct norm_case){.n = 3, .k = 8192, .h = true, .norm = true, .residual = 1, .quantized = true});
}

/* --- activations --- */

static void activate(int act, float *g, float *u, size_t n, bool gated)
{
    float *ones = mem(n * sizeof(*ones));
    for (size_t i = 0; i < n; i++) ones[i] = 1;
    switch (act) {
    case 0:
        ref->silu_mul(g, gated ? u : ones, n);
        break;
    case 1:
        gated ? ref->gelu_mul(g, u, n) : ref->gelu(g, n);
        break;
    case 2:
        ref->gelu_erf(g, gated ? u : NULL, n);
        break;
    case 3:
        ref->swiglu_clamped(g, u, n);
        break;
    case 4:
        for (size_t i = 0; i < n; i++) g[i] = (g[i] < 0 ? 0 : g[i]) * (gated ? u[i] : 1);
        break;
    default:
        ref->relu_sqr(g, n);
        if (gated) ref->mul(g, g, u, n);
    }
}

static void one_gated(int act, bool gated, bool bias, size_t n, size_t k, enum taste t)
{
    const bool quantized = k % KERN_BLOCK == 0;
    float *g = random_floats(n * k, t), *u = random_floats(n * k, t);
    const float *gb = random_floats(k, TAME), *ub = random_floats(k, TAME);
    struct cuda_gated a = {.gate = up_floats(g, n * k),
                           .up = gated ? up_floats(u, n * k) : NULL,
                           .gate_bias = bias ? up_floats(gb, k) : NULL,
                           .up_bias = bias && gated ? up_floats(ub, k) : NULL,
                           .f = dev_poisoned(n * k * sizeof(float)),
                           .k = (uint32_t)k,
                           .act = (uint32_t)act};
    if (quantized) a.q = dev_acts(n, k);
    for (size_t i = 0; i < n && bias; i++) ref->add(g + i * k, gb, k), ref->add(u + i * k, ub, k);
    activate(act, g, u, n * k, gated);
    dev_run("cuda_gated", (struct cuda_grid){(unsigned)(k + 1023) / 1024, (unsigned)n, 256, 0}, &a);
    same_floats(dev_down(a.f, n * k * sizeof(float)), g, n * k, "activation %d gated %d n %zu k %zu", act, gated, n, k);
    if (quantized) same_acts(&a.q, g, n, k, "activation");
    dev_reset();
}

void check_cuda_gated(void **state)
{
    rng_seed(1);
    for (int act = 0; act < 6; act++)
        for (size_t i = 0; i < 12; i++)
            one_gated(act, act == 3 || i % 2, i % 3 == 0, 1 + rng_below(4),
                      i % 4 ? 32 * (1 + rng_below(30)) : 1 + rng_below(300), i % 5 ? TAME : WILD);
}

static void one_quantize(size_t n, size_t k, enum taste t)
{
    const float *x = random_floats(n * k, t);
    struct cuda_gated a = {.gate = up_floats(x, n * k), .q = dev_acts(n, k), .k = (uint32_t)k};
    dev_run("cuda_quantize", (struct cuda_grid){(unsigned)(k + 1023) / 1024, (unsigned)n, 256, 0}, &a);
    same_acts(&a.q, x, n, k, "quantize");
    dev_reset();
}

void check_cuda_logits(void **state)
{
    rng_seed(1);
    for (size_t i = 0; i < 20; i++) {
        const size_t n = 1 + rng_below(3), k = 1 + rng_below(900);
        float *x = random_floats(n * k, i % 3 ? TAME : WILD);
        const float *bias = random_floats(k, TAME);
        struct cuda_logits a = {.x = up_floats(x, n * k),
                                .bias = i % 2 ? up_floats(bias, k) : NULL,
                                .scale = i % 3 ? 1 : 0.3f,
                                .cap = i % 4 ? 0 : 30,
                                .k = (uint32_t)k};
        for (size_t t = 0; t < n; t++) {
            if (a.bias) ref->add(x + t * k, bias, k);
            if (a.scale != 1) ref->scale(x + t * k, a.scale, k);
            if (a.cap > 0) ref->softcap(x + t * k, a.cap, k);
        }
        dev_run("cuda_logits", (struct cuda_grid){(unsigned)(k + 255) / 256, (unsigned)n, 256, 0}, &a);
        same_floats(dev_down(a.x, n * k * sizeof(float)), x, n * k, "logits n %zu k %zu", n, k);
        dev_reset();
    }
    for (size_t i = 0; i < 12; i++) one_quantize(1 + rng_below(5), 32 * (1 + rng_below(40)), i % 2 ? TAME : WILD);
}

/* Some values are equal, not numbers, infinite, or zeros of both signs. */
static void spoil(float *x, size_t n, size_t i)
{
    static const float some[] = {NAN, -INFINITY, INFINITY, 0.0f, -0.0f};
    for (size_t k = 0; k < n; k++) {
        if (i % 3 == 1) x[k] = (float)rng_below(9) - 4;
        if (i % 4 == 1 && rng_below(3) == 0) x[k] = some[rng_below(i % 8 == 1 ? 2 : 5)];
        if (i % 5 == 4) x[k] = some[i % 2 ? 0 : rng_below(2)];
        if (i % 7 == 3) x[k] = x[k] > 0 ? -0.0f : 0.0f;
    }
}

/* The place of the largest number, of equal ones the first. -1: there is none, or it is not finite. */
static int32_t largest_of(const float *x, size_t k)
{
    size_t at = 0;
    float best = -INFINITY;
    for (size_t i = 0; i < k; i++)
        if (x[i] > best) best = x[i], at = i;
    return isfinite(best) ? (int32_t)at : -1;
}

void check_cuda_largest(void **state)
{
    rng_seed(1);
    for (size_t i = 0; i < 60; i++) {
        const size_t n = 1 + rng_below(5), k = 1 + rng_below(i % 2 ? 300 : 20000),
                     parts = (k + CUDA_LARGEST - 1) / CUDA_LARGEST;
        float *x = random_floats(n * k, i % 3 ? TAME : WILD);
        uint32_t *zeros = mem(n * sizeof(*zeros));
        spoil(x, n * k, i);
        memset(zeros, 0, n * sizeof(*zeros));
        struct cuda_largest a = {.x = up_floats(x, n * k),
                                 .parts = dev_poisoned(n * parts * sizeof(uint64_t)),
                                 .done = dev_up(zeros, n * sizeof(*zeros)),
                                 .best = dev_poisoned(n * sizeof(int32_t)),
                                 .k = (uint32_t)k};
        for (int again = 0; again < 2; again++) {
            dev_run("cuda_largest", (struct cuda_grid){(unsigned)parts, (unsigned)n, 256, 0}, &a);
            const int32_t *best = dev_down(a.best, n * sizeof(*best));
            for (size_t row = 0; row < n; row++) {
                const int32_t want = largest_of(x + row * k, k);
                if (best[row] != want) fail_msg("largest of %zu: %d, not %d", k, best[row], want);
            }
        }
        dev_reset();
    }
}

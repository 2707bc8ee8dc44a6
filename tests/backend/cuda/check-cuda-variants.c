/* SPDX-License-Identifier: MIT */
/* Joins, norms, gates and activations of blocks that only some architectures have. */
#include "tests/backend/cuda/check-cuda.h"
#include <math.h>
#include <string.h>

static float *some_floats(size_t n, enum taste t)
{
    float *x = mem(n * sizeof(*x));
    for (size_t i = 0; i < n; i++) x[i] = rng_value(t);
    return x;
}

/* --- norms --- */

struct any_case {
    size_t n, k, each;
    bool h, bias, post, beside, beside_bias, side, layer, outer, second, norm, w_bias, out_scale;
    float residual;
    enum taste taste;
};

/* Vectors of a case, [each][k]. */
struct any_vectors {
    const float *bias, *post, *beside_bias, *w, *w_bias, *second, *second_bias, *scale;
};

static void norm_by(const struct any_case *c, float *out, const float *x, const float *w, const float *bias)
{
    if (c->layer) {
        ref->layernorm(out, x, w, bias, c->k, 1e-5f);
        return;
    }
    ref->rmsnorm(out, x, w, c->k, 1e-5f);
    if (bias) ref->add(out, bias, c->k);
}

static void outer_row(const struct any_case *c, const struct any_vectors *v, float *x, float *h)
{
    if (c->bias) ref->add(h, v->bias, c->k);
    ref->add(h, x, c->k);
    norm_by(c, c->second ? h : x, h, v->w, c->w_bias ? v->w_bias : NULL);
    if (!c->second) return;
    ref->add(h, x, c->k);
    norm_by(c, x, h, v->second, v->second_bias);
}

static void join_row(const struct any_case *c, const struct any_vectors *v, float *x, float *h, float *beside,
                     const float *side)
{
    if (c->bias) ref->add(h, v->bias, c->k);
    if (c->post) norm_by(c, h, h, v->post, NULL);
    if (c->residual != 1) ref->scale(h, c->residual, c->k);
    ref->add(x, h, c->k);
    if (c->beside && c->beside_bias) ref->add(beside, v->beside_bias, c->k);
    if (c->beside && c->residual != 1) ref->scale(beside, c->residual, c->k);
    if (c->beside) ref->add(x, beside, c->k);
    if (c->side) {
        ref->add(x, side, c->k);
        ref->scale(x, (float)sqrt(0.5), c->k);
    }
    if (c->out_scale) ref->scale(x, *v->scale, c->k);
}

/* A row by the definition: the joined @x, and @out. @own: its weights among each. */
static void any_row(const struct any_case *c, const struct any_vectors *v, float *x, float *const more[3], size_t own,
                    float *out)
{
    float *y = mem(c->k * sizeof(*y));
    memcpy(y, x, c->k * sizeof(*y));
    if (c->h && c->outer)
        outer_row(c, v, x, more[0]);
    else if (c->h)
        join_row(c, v, x, more[0], more[1], more[2]);
    memcpy(y, x, c->k * sizeof(*y));
    if (!c->h && c->bias) ref->add(y, v->bias + own * c->k, c->k);
    memcpy(out, y, c->k * sizeof(*y));
    if (c->norm && !(c->h && c->outer))
        norm_by(c, out, y, v->w + own * c->k, c->w_bias ? v->w_bias + own * c->k : NULL);
}

static struct cuda_norm_any any_args(const struct any_case *c, const struct any_vectors *v)
{
    const size_t k = c->k, all = c->each * k;
    struct cuda_norm_any a = {.w_bias = c->w_bias ? kv_up(v->w_bias, all) : NULL,
                              .beside_bias = c->beside_bias ? kv_up(v->beside_bias, k) : NULL,
                              .second = c->second ? kv_up(v->second, k) : NULL,
                              .second_bias = c->second ? kv_up(v->second_bias, k) : NULL,
                              .each = (uint32_t)c->each,
                              .layer = c->layer,
                              .outer = c->outer};
    a.n = (struct cuda_norm){.bias = c->bias ? kv_up(v->bias, all) : NULL,
                             .post = c->post ? kv_up(v->post, k) : NULL,
                             .out_scale = c->out_scale ? kv_up(v->scale, 1) : NULL,
                             .w = c->norm ? kv_up(v->w, all) : NULL,
                             .f = dev_poisoned(c->n * k * sizeof(float)),
                             .eps = 1e-5f,
                             .residual = c->residual,
                             .k = (uint32_t)k};
    if (k % KERN_BLOCK == 0) a.n.q = dev_acts(c->n, k);
    return a;
}

static void one_any(struct any_case c)
{
    const size_t k = c.k, all = c.n * k, bytes = all * sizeof(float), own = c.each * k;
    const unsigned threads = k < 256 ? (unsigned)(k + 31) / 32 * 32 : 256;
    const struct any_vectors v = {some_floats(own, TAME), some_floats(k, TAME),   some_floats(k, TAME),
                                  some_floats(own, TAME), some_floats(own, TAME), some_floats(k, TAME),
                                  some_floats(k, TAME),   some_floats(1, TAME)};
    float *x = some_floats(all, c.taste), *h = some_floats(all, c.taste), *beside = some_floats(all, c.taste),
          *side = some_floats(all, c.taste), *out = mem(bytes);
    struct cuda_norm_any a = any_args(&c, &v);
    a.n.x = kv_up(x, all);
    a.n.h = c.h ? kv_up(h, all) : NULL;
    a.beside = c.beside ? kv_up(beside, all) : NULL;
    a.side = c.side ? kv_up(side, all) : NULL;
    for (size_t i = 0; i < c.n; i++)
        any_row(&c, &v, x + i * k, (float *[]){h + i * k, beside + i * k, side + i * k}, i % c.each, out + i * k);
    dev_run("cuda_norm_any",
            (struct cuda_grid){(unsigned)c.n, 1, threads, (unsigned)(((c.h ? 2 : 1) * k + 1) * sizeof(float))}, &a);
    same_floats(dev_down(a.n.f, bytes), out, all, "norm n %zu k %zu layer %d outer %d", c.n, k, c.layer, c.outer);
    same_floats(dev_down(a.n.x, bytes), x, all, "join n %zu k %zu layer %d outer %d", c.n, k, c.layer, c.outer);
    if (a.n.q.q) same_acts(&a.n.q, out, c.n, k, "norm");
    dev_reset();
}

/* In place, as for heads. */
static void one_in_place(size_t n, size_t k)
{
    const float *w = some_floats(k, TAME);
    float *x = some_floats(n * k, TAME);
    struct cuda_norm_any a = {
        .n = {.x = kv_up(x, n * k), .w = kv_up(w, k), .eps = 1e-5f, .residual = 1, .k = (uint32_t)k},
        .each = 1,
        .layer = 1};
    a.n.f = a.n.x;
    for (size_t i = 0; i < n; i++) ref->layernorm(x + i * k, x + i * k, w, NULL, k, 1e-5f);
    dev_run("cuda_norm_any", (struct cuda_grid){(unsigned)n, 1, 32, (unsigned)((k + 1) * sizeof(float))}, &a);
    same_floats(dev_down(a.n.x, n * k * sizeof(float)), x, n * k, "norm in place n %zu k %zu", n, k);
    dev_reset();
}

void check_cuda_norm_any(void **state)
{
    rng_seed(1);
    for (unsigned i = 0; i < 400; i++) {
        const unsigned bits = i < 256 ? i : rng_below(1 << 12);
        struct any_case c = {.n = 1 + rng_below(5),
                             .k = i % 3 ? 32 * (1 + rng_below(40)) : 1 + rng_below(700),
                             .each = 1,
                             .layer = bits & 1,
                             .h = bits & 2,
                             .norm = bits & 4,
                             .w_bias = bits & 4 && bits & 8,
                             .bias = bits & 16,
                             .post = bits & 32 && bits & 2,
                             .beside = bits & 64,
                             .beside_bias = bits & 64 && bits & 128,
                             .side = bits & 256,
                             .outer = bits & 512 && bits & 4,
                             .second = bits & 1024 && bits & 512 && bits & 4,
                             .out_scale = bits & 2048,
                             .residual = i % 5 ? 1 : 0.22f,
                             .taste = i % 7 ? TAME : WILD};
        if (!c.h) c.each = 1 + rng_below(4);
        one_any(c);
    }
    for (size_t k = 1; k < 70; k += 3) one_in_place(7, k);
    one_any((struct any_case){
        .n = 2, .k = 8192, .each = 1, .layer = true, .h = true, .norm = true, .w_bias = true, .residual = 1});
}

/* --- gates --- */

static void one_xielu(size_t n, size_t k, bool biased, enum taste t)
{
    float *x = some_floats(n * k, t);
    const float *bias = some_floats(k, TAME), by[4] = {0.8f, -0.3f, 0.5f, -1e-6f};
    struct cuda_xielu a = {.g = {.gate = kv_up(x, n * k),
                                 .gate_bias = biased ? kv_up(bias, k) : NULL,
                                 .f = dev_poisoned(n * k * sizeof(float)),
                                 .k = (uint32_t)k},
                           .by = {by[0], by[1], by[2], by[3]}};
    if (k % KERN_BLOCK == 0) a.g.q = dev_acts(n, k);
    for (size_t i = 0; biased && i < n; i++) ref->add(x + i * k, bias, k);
    ref->xielu(x, by, n * k);
    dev_run("cuda_xielu", (struct cuda_grid){(unsigned)(k + 1023) / 1024, (unsigned)n, 256, 0}, &a);
    same_floats(dev_down(a.g.f, n * k * sizeof(float)), x, n * k, "xielu n %zu k %zu", n, k);
    if (a.g.q.q) same_acts(&a.g.q, x, n, k, "xielu");
    dev_reset();
}

static void one_head_gate(size_t n, size_t k, bool listed, enum taste t)
{
    float *x = some_floats(n * k, t);
    const float *gate = some_floats(2 * n * k, t);
    uint32_t *list = mem(n * sizeof(*list));
    for (size_t i = 0; i < n; i++) list[i] = (uint32_t)(2 * i + 1);
    struct cuda_head_gate a = {.x = kv_up(x, n * k),
                               .gate = kv_up(gate, 2 * n * k),
                               .list = listed ? dev_up(list, n * sizeof(*list)) : NULL,
                               .f = dev_poisoned(n * k * sizeof(float)),
                               .k = (uint32_t)k};
    if (k % KERN_BLOCK == 0) a.q = dev_acts(n, k);
    for (size_t i = 0; i < n; i++) ref->sigmoid_mul(x + i * k, gate + (listed ? list[i] : i) * k, k);
    dev_run("cuda_head_gate", (struct cuda_grid){(unsigned)(k + 1023) / 1024, (unsigned)n, 256, 0}, &a);
    same_floats(dev_down(a.f, n * k * sizeof(float)), x, n * k, "gates of heads n %zu k %zu", n, k);
    if (a.q.q) same_acts(&a.q, x, n, k, "gates of heads");
    dev_reset();
}

void check_cuda_gates(void **state)
{
    rng_seed(1);
    for (unsigned i = 0; i < 24; i++) {
        const size_t n = 1 + rng_below(4), k = i % 3 ? 32 * (1 + rng_below(50)) : 1 + rng_below(600);
        one_xielu(n, k, i % 2, i % 5 ? TAME : WILD);
        one_head_gate(n, k, i % 2, i % 5 ? TAME : WILD);
    }
}

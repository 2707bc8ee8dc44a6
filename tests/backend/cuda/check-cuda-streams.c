/* SPDX-License-Identifier: MIT */
/* Embeddings of tokens for layers, sparse gates, and AltUp: by the formulas of daemon/backend/cpu, where these are. */
#include "daemon/backend/cpu/lanes.h"
#include "tests/backend/cuda/check-cuda.h"
#include <math.h>
#include <string.h>

#define N 4 /* streams */

static float *some_floats(size_t n)
{
    float *x = mem(n * sizeof(*x));
    for (size_t i = 0; i < n; i++) x[i] = rng_value(TAME);
    return x;
}

static void same(const float *on_device, const float *want, size_t n, const char *what)
{
    same_floats(dev_down(on_device, n * sizeof(float)), want, n, "%s", what);
}

/* --- embeddings and gates --- */

static void one_layer_rows(size_t n, size_t layers, size_t k)
{
    const size_t all = n * layers * k;
    float *e = some_floats(all), *rows = some_floats(all);
    const float *w = some_floats(k);
    const struct cuda_layer_rows a = {.e = kv_up(e, all),
                                      .rows = kv_up(rows, all),
                                      .w = kv_up(w, k),
                                      .scale = 0.3f,
                                      .row_scale = 4,
                                      .eps = 1e-5f,
                                      .k = (uint32_t)k};
    ref->scale(e, a.scale, all);
    ref->scale(rows, a.row_scale, all);
    for (size_t i = 0; i < all; i += k) ref->rmsnorm(e + i, e + i, w, k, a.eps);
    ref->add(e, rows, all);
    ref->scale(e, (float)sqrt(0.5), all);
    dev_run("cuda_layer_rows", (struct cuda_grid){(unsigned)layers, (unsigned)n, 256, (unsigned)(k + 1) * 4}, &a);
    same(a.e, e, all, "embeddings of layers");
    dev_reset();
}

static void one_layer_gate(size_t n, size_t k, bool listed)
{
    const size_t ld = 3 * k;
    float *gate = some_floats(n * k);
    const float *e = some_floats(2 * n * ld);
    uint32_t *list = mem(n * sizeof(*list));
    for (size_t i = 0; i < n; i++) list[i] = (uint32_t)(2 * i + 1);
    struct cuda_layer_gate a = {.gate = kv_up(gate, n * k),
                                .e = kv_up(e, 2 * n * ld) + k,
                                .list = listed ? dev_up(list, n * sizeof(*list)) : NULL,
                                .f = dev_poisoned(n * k * sizeof(float)),
                                .k = (uint32_t)k,
                                .ld = (uint32_t)ld};
    if (k % KERN_BLOCK == 0) a.q = dev_acts(n, k);
    for (size_t i = 0; i < n; i++) ref->gelu_mul(gate + i * k, e + k + (listed ? list[i] : i) * ld, k);
    dev_run("cuda_layer_gate", (struct cuda_grid){(unsigned)(k + 1023) / 1024, (unsigned)n, 256, 0}, &a);
    same(a.f, gate, n * k, "gates of layers");
    if (a.q.q) same_acts(&a.q, gate, n, k, "gates of layers");
    dev_reset();
}

/* As in daemon/backend/cpu/sparse-gate.c. */
static float cut(const float *g, size_t n, float factor)
{
    double sum[LANES] = {0}, square[LANES] = {0};
    for (size_t i = 0; i < n; i++) sum[i % LANES] += (double)g[i];
    const double mean = lanes_fold(sum) / (double)n;
    for (size_t i = 0; i < n; i++) square[i % LANES] += ((double)g[i] - mean) * ((double)g[i] - mean);
    return (float)(mean + (double)factor * (n > 1 ? sqrt(lanes_fold(square) / (double)(n - 1)) : 0));
}

static void one_sparse(size_t n, size_t k)
{
    float *gate = some_floats(n * k);
    const float *u = some_floats(n * k);
    struct cuda_sparse_gate a = {.gate = kv_up(gate, n * k),
                                 .up = kv_up(u, n * k),
                                 .f = dev_poisoned(n * k * sizeof(float)),
                                 .factor = 0.7f,
                                 .k = (uint32_t)k};
    if (k % KERN_BLOCK == 0) a.q = dev_acts(n, k);
    for (size_t i = 0; i < n; i++) {
        float *g = gate + i * k;
        const float from = cut(g, k, a.factor);
        for (size_t j = 0; j < k; j++) g[j] = g[j] > from ? g[j] - from : 0;
        ref->gelu_mul(g, u + i * k, k);
    }
    dev_run("cuda_sparse_gate", (struct cuda_grid){(unsigned)n, 1, 256, (unsigned)(k + 1) * 4}, &a);
    same(a.f, gate, n * k, "sparse gates");
    if (a.q.q) same_acts(&a.q, gate, n, k, "sparse gates");
    dev_reset();
}

void check_cuda_layers(void **state)
{
    rng_seed(1);
    for (unsigned i = 0; i < 20; i++) {
        const size_t n = 1 + rng_below(4), k = i % 3 ? 32 * (1 + rng_below(40)) : 1 + rng_below(600);
        one_layer_rows(n, 1 + rng_below(5), k);
        one_layer_gate(n, k, i % 2);
        one_sparse(n, k);
    }
}

/* --- AltUp: a token's streams s[N][k], as in daemon/backend/cpu/altup.c --- */

struct altup_case {
    size_t n, k;
    float *s, *x, *h, *side; /* of all tokens */
    const float *post, *router_norm, *router, *predict, *correct, *scale;
};

static struct altup_case random_altup(size_t n, size_t k)
{
    return (struct altup_case){n,
                               k,
                               some_floats(n * N * k),
                               some_floats(n * k),
                               some_floats(n * k),
                               some_floats(n * k),
                               some_floats(k),
                               some_floats(k),
                               some_floats(N * k),
                               some_floats(N * N * N),
                               some_floats(N * N),
                               some_floats(k)};
}

static struct cuda_altup altup_args(const struct altup_case *c)
{
    const size_t n = c->n, k = c->k;
    return (struct cuda_altup){.streams = kv_up(c->s, n * N * k),
                               .x = kv_up(c->x, n * k),
                               .h = kv_up(c->h, n * k),
                               .side = kv_up(c->side, n * k),
                               .post = kv_up(c->post, k),
                               .router_norm = kv_up(c->router_norm, k),
                               .router = kv_up(c->router, N * k),
                               .scale = kv_up(c->scale, k),
                               .eps = 1e-5f,
                               .least = 0.1f,
                               .count = N,
                               .stream = 1,
                               .k = (uint32_t)k};
}

static void modalities(const struct altup_case *c, const float *x, float m[N])
{
    float *row = mem(c->k * sizeof(*row));
    ref->rmsnorm(row, x, c->router_norm, c->k, 1e-5f);
    ref->scale(row, 1 / (float)c->k, c->k);
    for (size_t s = 0; s < N; s++) m[s] = (float)lanes_dot(c->router + s * c->k, row, c->k);
    ref->softcap(m, 1, N);
}

static float coefficient(const float *row, const float m[N])
{
    double sum = 0;
    for (size_t s = 0; s < N; s++) sum += (double)row[s] * (double)m[s];
    return (float)sum;
}

static void add_times(float *x, const float *y, float by, size_t n)
{
    float *row = mem(n * sizeof(*row));
    memcpy(row, y, n * sizeof(*row));
    ref->scale(row, by, n);
    ref->add(x, row, n);
}

static void match(const struct altup_case *c, float *side, const float *like)
{
    ref->l2norm(side, side, c->k, 0.1f, (float)sqrt(lanes_dot(like, like, c->k)));
}

static void run(const char *name, const struct altup_case *c, const struct cuda_altup *a)
{
    dev_run(name, (struct cuda_grid){(unsigned)c->n, 1, 256, (unsigned)(c->k + 1) * 4}, a);
}

static void one_predict(const struct altup_case *c, bool joins)
{
    struct cuda_altup a = altup_args(c);
    const size_t k = c->k;
    float m[N];
    a.mix = kv_up(c->predict, N * N * N);
    if (!joins) a.post = NULL;
    for (size_t i = 0; i < c->n; i++) {
        float *s = c->s + i * N * k, *h = c->h + i * k, *mixed = mem(N * k * sizeof(*mixed));
        if (joins) ref->rmsnorm(h, h, c->post, k, 1e-5f);
        for (size_t j = 1; joins && j < N; j++) ref->add(s + j * k, h, k);
        modalities(c, s, m);
        memcpy(mixed, s, N * k * sizeof(*mixed));
        for (size_t j = 0; j < N * N; j++)
            add_times(mixed + j / N * k, s + j % N * k, coefficient(c->predict + j * N, m), k);
        memcpy(s, mixed, N * k * sizeof(*s));
        memcpy(c->x + i * k, s, k * sizeof(*s));
    }
    run("cuda_altup_predict", c, &a);
    same(a.streams, c->s, c->n * N * k, "predicted streams");
    same(a.x, c->x, c->n * k, "the predicted stream");
}

static void one_correct(const struct altup_case *c)
{
    struct cuda_altup a = altup_args(c);
    const size_t k = c->k;
    float m[N];
    a.mix = kv_up(c->correct, N * N);
    if (k % KERN_BLOCK == 0) a.q = dev_acts(c->n, k);
    for (size_t i = 0; i < c->n; i++) {
        float *s = c->s + i * N * k, *x = c->x + i * k, *change = mem(k * sizeof(*change));
        modalities(c, x, m);
        memcpy(change, x, k * sizeof(*change));
        add_times(change, s, -1, k);
        for (size_t j = 0; j < N; j++) add_times(s + j * k, change, 1 + coefficient(c->correct + j * N, m), k);
        ref->mul(c->h + i * k, s, c->scale, k);
    }
    run("cuda_altup_correct", c, &a);
    same(a.streams, c->s, c->n * N * k, "corrected streams");
    same(a.h, c->h, c->n * k, "the corrected stream");
    if (a.q.q) same_acts(&a.q, c->h, c->n, k, "the corrected stream");
}

/* Both ends, and a copy of a stream; @stream: 1 or the last. */
static void one_end(const struct altup_case *c, uint32_t stream)
{
    struct cuda_altup a = altup_args(c);
    const size_t k = c->k;
    a.stream = stream;
    for (size_t i = 0; i < c->n; i++) {
        float *s = c->s + i * N * k, *x = c->x + i * k, *side = mem(k * sizeof(*side));
        memcpy(side, c->side + i * k, k * sizeof(*side));
        if (stream == 1) memcpy(s, x, k * sizeof(*s));
        match(c, side, x);
        memcpy(s + stream * k, side, k * sizeof(*s));
        memcpy(c->h + i * k, side, k * sizeof(*s));
    }
    run("cuda_altup_begin", c, &a);
    same(a.streams, c->s, c->n * N * k, "first streams");
    run("cuda_altup_take", c, &a);
    same(a.h, c->h, c->n * k, "a stream");
    for (size_t i = 0; i < c->n; i++) {
        float *s = c->s + i * N * k, *x = c->x + i * k, *side = c->side + i * k;
        if (stream == 1) memcpy(x, s, k * sizeof(*x));
        match(c, side, s);
        ref->add(x, side, k);
        if (stream == N - 1) ref->scale(x, 1 / (float)N, k);
    }
    run("cuda_altup_end", c, &a);
    same(a.x, c->x, c->n * k, "the mean of the streams");
    for (size_t i = 0; i < c->n; i++) {
        float *s = c->s + i * N * k, *h = c->h + i * k;
        ref->rmsnorm(h, h, c->post, k, 1e-5f);
        for (size_t j = 1; j < N; j++) ref->add(s + j * k, h, k);
    }
    run("cuda_altup_join", c, &a);
    same(a.streams, c->s, c->n * N * k, "streams with an embedding");
}

void check_cuda_altup(void **state)
{
    rng_seed(1);
    for (unsigned i = 0; i < 20; i++) {
        const struct altup_case c =
            random_altup(1 + rng_below(3), i % 3 ? 32 * (1 + rng_below(40)) : 1 + rng_below(600));
        one_predict(&c, i % 2);
        one_correct(&c);
        one_end(&c, i % 2 ? 1 : N - 1);
        dev_reset();
    }
}

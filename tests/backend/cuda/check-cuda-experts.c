/* SPDX-License-Identifier: MIT */
/* A mixture of experts: the router's choices, the order of rows, and the products of tiles. */
#include "daemon/backend/cpu/route.h"
#include "tests/backend/cuda/check-cuda.h"
#include <math.h>
#include <string.h>

/* --- the router --- */

#define CHOICES 64 /* most experts of a token here */

/* Scores of which some are equal, and a few are no numbers. */
static float *some_scores(size_t n, bool odd)
{
    float *x = mem(n * sizeof(*x));
    for (size_t i = 0; i < n; i++) {
        x[i] = rng_below(2) ? rng_float() * 4 : (float)rng_below(5) - 2;
        if (odd && rng_below(9) == 0) x[i] = rng_below(2) ? NAN : rng_below(2) ? INFINITY : -INFINITY;
    }
    return x;
}

static struct hparams_experts random_experts(uint32_t i)
{
    static const uint32_t sizes[] = {1, 2, 7, 16, 60, 128, 512, HPARAMS_EXPERTS_MAX};
    struct hparams_experts x = {.n = sizes[i % 8], .groups = 1, .groups_used = 1, .scale = rng_below(2) ? 1 : 2.5f};
    x.used = 1 + rng_below(x.n < CHOICES ? x.n : CHOICES);
    x.sigmoid = rng_below(2);
    x.of_all = rng_below(2);
    x.scaled_input = rng_below(4) == 0;
    if (x.n % 4 == 0 && rng_below(2)) {
        x.groups = x.n == 16 ? 16 : 4;
        x.groups_used = 1 + rng_below(x.groups);
        const uint32_t most = x.n / x.groups * x.groups_used;
        if (x.used > most) x.used = most;
    }
    return x;
}

static void one_route(const struct hparams_experts *x, uint32_t n, bool bias, bool choice_bias, bool odd)
{
    float *scores = some_scores(n * x->n, odd), *b = some_scores(x->n, false), *by = some_scores(x->n, false);
    const size_t choices = (size_t)n * x->used;
    struct cuda_route a = {.scores = dev_up(scores, n * x->n * sizeof(float)),
                           .bias = bias ? dev_up(b, x->n * sizeof(float)) : NULL,
                           .choice_bias = choice_bias ? dev_up(by, x->n * sizeof(float)) : NULL,
                           .chosen = dev_poisoned(choices * sizeof(uint32_t)),
                           .share = dev_poisoned(choices * sizeof(float)),
                           .experts = x->n,
                           .used = x->used,
                           .groups = x->groups,
                           .groups_used = x->groups_used,
                           .scale = x->scale,
                           .sigmoid = x->sigmoid,
                           .of_all = x->of_all,
                           .scaled_input = x->scaled_input};
    dev_run("cuda_route", (struct cuda_grid){n, 1, CUDA_WARP, 0}, &a);
    const uint32_t *chosen = dev_down(a.chosen, choices * sizeof(*chosen));
    const float *share = dev_down(a.share, choices * sizeof(*share));
    for (size_t i = 0; i < n; i++) {
        uint32_t want[CHOICES];
        float shares[CHOICES];
        if (bias) ref->add(scores + i * x->n, b, x->n);
        route(x, scores + i * x->n, choice_bias ? by : NULL, want, shares);
        for (uint32_t j = 0; j < x->used; j++)
            if (chosen[i * x->used + j] != want[j])
                fail_msg("choice %u of token %zu is %u, not %u (%u experts, %u groups)", j, i, chosen[i * x->used + j],
                         want[j], x->n, x->groups);
        same_floats(share + i * x->used, shares, x->used, "shares of token %zu, %u experts", i, x->n);
    }
    dev_reset();
}

void check_cuda_route(void **state)
{
    rng_seed(1);
    for (uint32_t i = 0; i < 120; i++) {
        const struct hparams_experts x = random_experts(i);
        one_route(&x, 1 + rng_below(20), rng_below(2), rng_below(2), i % 5 == 4);
    }
}

/* --- the order of rows --- */

static uint32_t *some_choices(uint32_t n, uint32_t experts, uint32_t i)
{
    uint32_t *chosen = mem(n * sizeof(*chosen));
    for (uint32_t c = 0; c < n; c++) chosen[c] = i % 3 ? rng_below(experts) : rng_below(2) ? 0 : experts - 1;
    return chosen;
}

/* Each choice has a row in a tile of its expert, and no other has it. */
static void one_sort(uint32_t n, uint32_t experts, uint32_t most, uint32_t i)
{
    const uint32_t *chosen = some_choices(n, experts, i), gaps = n < experts ? n : experts;
    const uint32_t n_tiles = n / most + gaps, rows = n + gaps * CUDA_ROW_ALIGN;
    const struct cuda_sort a = {.chosen = dev_up(chosen, n * sizeof(*chosen)),
                                .row = dev_poisoned(n * sizeof(uint32_t)),
                                .tiles = dev_poisoned(n_tiles * sizeof(*a.tiles)),
                                .n = n,
                                .experts = experts,
                                .n_tiles = n_tiles,
                                .most = most};
    dev_run("cuda_sort", (struct cuda_grid){1, 1, CUDA_EXPERTS, 0}, &a);
    const uint32_t *row = dev_down(a.row, n * sizeof(*row));
    const struct cuda_tile_rows *tiles = dev_down(a.tiles, n_tiles * sizeof(*tiles));
    uint32_t *expert = mem(rows * sizeof(*expert)), left = n;
    memset(expert, 0xff, rows * sizeof(*expert));
    for (uint32_t t = 0; t < n_tiles; t++) {
        assert_true(tiles[t].n <= most && tiles[t].n <= left && tiles[t].first % CUDA_ROW_ALIGN == 0);
        left -= tiles[t].n;
        for (uint32_t r = 0; r < tiles[t].n; r++) {
            assert_true(tiles[t].first + r < rows && expert[tiles[t].first + r] == UINT32_MAX);
            expert[tiles[t].first + r] = tiles[t].expert;
        }
    }
    assert_int_equal(left, 0);
    for (uint32_t c = 0; c < n; c++) {
        assert_true(row[c] < rows);
        assert_int_equal(expert[row[c]], chosen[c]);
        expert[row[c]] = UINT32_MAX;
    }
    dev_reset();
}

void check_cuda_sort(void **state)
{
    static const uint32_t sizes[] = {1, 2, 8, 60, 128, HPARAMS_EXPERTS_MAX};
    rng_seed(1);
    for (uint32_t i = 0; i < 60; i++)
        one_sort(1 + rng_below(i % 4 ? 100 : 5000), sizes[i % 6], i % 2 ? CUDA_TILE_ROWS : CUDA_ROW_ALIGN, i);
}

/* --- inputs, activations and sums of rows --- */

#define EXPERTS 5

/* A case: @n tokens with @used choices each, and a random row for each choice. */
struct rows_case {
    uint32_t n, used, k, rows;
    uint32_t *row, *chosen, *dev_row, *dev_chosen;
};

static struct rows_case random_rows(void)
{
    struct rows_case c = {.n = 1 + rng_below(6), .used = 1 + rng_below(4), .k = 32 * (1 + rng_below(12))};
    const uint32_t choices = c.n * c.used;
    c.rows = choices + rng_below(9);
    c.row = mem(c.rows * sizeof(*c.row));
    c.chosen = mem(choices * sizeof(*c.chosen));
    for (uint32_t i = 0; i < c.rows; i++) {
        const uint32_t j = rng_below(i + 1);
        c.row[i] = c.row[j], c.row[j] = i;
    }
    for (uint32_t i = 0; i < choices; i++) c.chosen[i] = rng_below(EXPERTS);
    c.dev_row = dev_up(c.row, choices * sizeof(*c.row));
    c.dev_chosen = dev_up(c.chosen, choices * sizeof(*c.chosen));
    return c;
}

static float *some_floats(size_t n)
{
    float *x = mem(n * sizeof(*x));
    for (size_t i = 0; i < n; i++) x[i] = rng_value(TAME);
    return x;
}

static struct cuda_grid choices_grid(const struct rows_case *c)
{
    return (struct cuda_grid){(c->k + 1023) / 1024, c->n * c->used, 256, 0};
}

/* Rows of choices in the order of choices. */
static float *in_order(const struct rows_case *c, const float *rows)
{
    float *x = mem((size_t)c->n * c->used * c->k * sizeof(*x));
    for (uint32_t i = 0; i < c->n * c->used; i++)
        memcpy(x + (size_t)i * c->k, rows + (size_t)c->row[i] * c->k, c->k * sizeof(*x));
    return x;
}

static void one_gather(bool scaled)
{
    const struct rows_case c = random_rows();
    const uint32_t choices = c.n * c.used;
    const float *x = some_floats((size_t)c.n * c.k), *share = some_floats(choices);
    struct cuda_gather a = {.x = kv_up(x, (size_t)c.n * c.k),
                            .share = scaled ? kv_up(share, choices) : NULL,
                            .row = c.dev_row,
                            .f = dev_poisoned((size_t)c.rows * c.k * sizeof(float)),
                            .q = dev_acts(c.rows, c.k),
                            .used = c.used,
                            .k = c.k};
    a.q.wide = 0;
    dev_run("cuda_gather", choices_grid(&c), &a);
    float *want = mem((size_t)choices * c.k * sizeof(*want));
    const float *got = dev_down(a.f, (size_t)c.rows * c.k * sizeof(float));
    const int8_t *q = dev_down(a.q.q, (size_t)c.rows * c.k);
    for (uint32_t i = 0; i < choices; i++) {
        int8_t codes[32 * 12];
        float d[2 * 12];
        int16_t s[2 * 12];
        memcpy(want + (size_t)i * c.k, x + (size_t)(i / c.used) * c.k, c.k * sizeof(*want));
        if (scaled) ref->scale(want + (size_t)i * c.k, share[i], c.k);
        ref->quantize(codes, d, s, want + (size_t)i * c.k, c.k, 1);
        same_bytes(q + (size_t)c.row[i] * c.k, codes, c.k, "codes of choice %u", i);
    }
    same_floats(in_order(&c, got), want, (size_t)choices * c.k, "gathered rows");
    dev_reset();
}

static void one_gated(bool gate, bool bias)
{
    const struct rows_case c = random_rows();
    const size_t all = (size_t)c.rows * c.k, stack = (size_t)EXPERTS * c.k;
    float *g = some_floats(all), *u = some_floats(all), *gb = some_floats(stack), *ub = some_floats(stack);
    const struct cuda_gated_rows a = {.g = {.gate = kv_up(g, all),
                                            .up = gate ? kv_up(u, all) : NULL,
                                            .gate_bias = bias ? kv_up(gb, stack) : NULL,
                                            .up_bias = bias && gate ? kv_up(ub, stack) : NULL,
                                            .f = dev_poisoned(all * sizeof(float)),
                                            .k = c.k,
                                            .act = gate ? ACT_SILU : ACT_RELU_SQR},
                                      .row = c.dev_row,
                                      .chosen = c.dev_chosen};
    dev_run("cuda_gated_rows", choices_grid(&c), &a);
    const float *got = dev_down(a.g.f, all * sizeof(float));
    for (uint32_t i = 0; i < c.n * c.used; i++) {
        float *x = g + (size_t)c.row[i] * c.k, *y = u + (size_t)c.row[i] * c.k;
        if (bias) ref->add(x, gb + (size_t)c.chosen[i] * c.k, c.k);
        if (bias && gate) ref->add(y, ub + (size_t)c.chosen[i] * c.k, c.k);
        if (gate)
            ref->silu_mul(x, y, c.k);
        else
            ref->relu_sqr(x, c.k);
        same_floats(got + (size_t)c.row[i] * c.k, x, c.k, "activated row of choice %u", i);
    }
    dev_reset();
}

/* The sum of a token by the definition. */
static void add_rows(const struct rows_case *c, uint32_t t, const struct cuda_add_experts *host, const float *rows,
                     float *h)
{
    float *sum = mem(c->k * sizeof(*sum)), *x = mem(c->k * sizeof(*x));
    for (uint32_t j = 0; j < c->used; j++) {
        const uint32_t i = t * c->used + j;
        memcpy(x, rows + (size_t)c->row[i] * c->k, c->k * sizeof(*x));
        if (host->bias) ref->add(x, host->bias + (size_t)c->chosen[i] * c->k, c->k);
        if (host->scale) ref->scale(x, host->scale[c->chosen[i]], c->k);
        if (host->share) ref->scale(x, host->share[i], c->k);
        if (j) ref->add(sum, x, c->k);
        if (!j) memcpy(sum, x, c->k * sizeof(*x));
    }
    if (host->score) ref->scale(h, 1 / (1 + kern_exp(-host->score[t])), c->k);
    if (host->shared) ref->add(h, sum, c->k);
    if (!host->shared) memcpy(h, sum, c->k * sizeof(*h));
}

static void one_sum(unsigned bits)
{
    const struct rows_case c = random_rows();
    const size_t all = (size_t)c.rows * c.k, stack = (size_t)EXPERTS * c.k, out = (size_t)c.n * c.k;
    const float *rows = some_floats(all);
    float *h = some_floats(out);
    struct cuda_add_experts a = {.bias = bits & 1 ? some_floats(stack) : NULL,
                                 .scale = bits & 2 ? some_floats(EXPERTS) : NULL,
                                 .share = bits & 4 ? some_floats((size_t)c.n * c.used) : NULL,
                                 .score = bits & 8 ? some_floats(c.n) : NULL,
                                 .used = c.used,
                                 .k = c.k,
                                 .shared = bits >= 8},
                            host = a;
    a.rows = kv_up(rows, all), a.row = c.dev_row, a.chosen = c.dev_chosen, a.h = kv_up(h, out);
    if (a.bias) a.bias = kv_up(host.bias, stack);
    if (a.scale) a.scale = kv_up(host.scale, EXPERTS);
    if (a.share) a.share = kv_up(host.share, (size_t)c.n * c.used);
    if (a.score) a.score = kv_up(host.score, c.n);
    dev_run("cuda_add_experts", (struct cuda_grid){(c.k + 255) / 256, c.n, 256, 0}, &a);
    for (uint32_t t = 0; t < c.n; t++) add_rows(&c, t, &host, rows, h + (size_t)t * c.k);
    same_floats(dev_down(a.h, out * sizeof(float)), h, out, "sums of experts, case %u", bits);
    dev_reset();
}

void check_cuda_rows(void **state)
{
    rng_seed(1);
    for (unsigned i = 0; i < 20; i++) one_gather(i % 2);
    for (unsigned i = 0; i < 20; i++) one_gated(i % 2, i / 2 % 2);
    for (unsigned i = 0; i < 32; i++) one_sum(i % 16);
}

/* SPDX-License-Identifier: MIT */
/* Recurrent layers: convolutions and scans of runs with saves, and what follows them. */
#include "tests/backend/cuda/check-cuda.h"
#include <math.h>
#include <string.h>

#define RUNS   3
#define MOST   12 /* tokens of a run, at most */
#define STATES 8

/* Runs of a batch. Their states are blocks 0 … RUNS - 1; the saves go to the others. */
struct batch {
    struct cuda_run runs[RUNS];
    struct cuda_save saves[RUNS];
    uint32_t run_of[RUNS * MOST], n;
    size_t floats;       /* of a block */
    float *states, *dev; /* [STATES][floats] before */
};

static struct batch random_batch(size_t floats)
{
    struct batch b = {.floats = floats, .states = kv_floats(STATES * floats)};
    for (uint32_t i = 0; i < RUNS; i++) {
        struct cuda_run *r = &b.runs[i];
        *r = (struct cuda_run){.row = b.n, .n = 1 + rng_below(MOST), .fresh = rng_below(2), .block = i, .save = i};
        b.saves[i] = (struct cuda_save){1 + rng_below(r->n), RUNS + i};
        r->n_saves = rng_below(2);
        for (uint32_t t = 0; t < r->n; t++) b.run_of[b.n++] = i;
    }
    b.dev = kv_up(b.states, STATES * floats);
    return b;
}

static struct cuda_states states_of(const struct batch *b, size_t at)
{
    return (struct cuda_states){.runs = dev_up(b->runs, sizeof(b->runs)),
                                .saves = dev_up(b->saves, sizeof(b->saves)),
                                .mem = b->dev + at,
                                .stride = b->floats};
}

/* The states are as wanted, which are in b->states. */
static void same_states(const struct batch *b, const char *what)
{
    same_floats(dev_down(b->dev, STATES * b->floats * sizeof(float)), b->states, STATES * b->floats, "states of %s",
                what);
}

/* --- convolution --- */

/* A run: @in [before + n][channels] has the last inputs, then its own; the states behind @n tokens are stored. */
static void conv_run(struct batch *b, const struct cuda_run *r, float *in, uint32_t channels, uint32_t before)
{
    const size_t bytes = (size_t)before * channels * sizeof(float);
    if (r->n_saves)
        memcpy(b->states + b->saves[r->save].block * b->floats, in + (size_t)b->saves[r->save].n * channels, bytes);
    memcpy(b->states + r->block * b->floats, in + (size_t)r->n * channels, bytes);
}

static void one_conv(unsigned bits)
{
    const uint32_t channels = 1 + rng_below(300), taps = 2 + rng_below(CUDA_TAPS - 1), before = taps - 1,
                   ld = channels + rng_below(40);
    struct batch b = random_batch((size_t)before * channels + rng_below(9));
    const bool by = bits & 1, bias = bits & 2, gate = bits & 4, silu = bits & 8;
    const size_t all = (size_t)b.n * ld;
    const float *x = kv_floats(all), *f = kv_floats(all), *g = kv_floats(all), *w = kv_floats((size_t)taps * channels),
                *add = kv_floats(channels);
    const struct cuda_conv a = {.s = states_of(&b, 0),
                                .run_of = dev_up(b.run_of, sizeof(b.run_of)),
                                .x = kv_up(x, all),
                                .by = by ? kv_up(f, all) : NULL,
                                .w = kv_up(w, (size_t)taps * channels),
                                .bias = bias ? kv_up(add, channels) : NULL,
                                .gate = gate ? kv_up(g, all) : NULL,
                                .out = dev_poisoned((size_t)b.n * channels * sizeof(float)),
                                .ld = ld,
                                .channels = channels,
                                .taps = taps,
                                .silu = silu};
    dev_run("cuda_conv", (struct cuda_grid){(channels + 255) / 256, b.n, 256, 0}, &a);
    dev_run("cuda_conv_keep", (struct cuda_grid){(channels + 255) / 256, RUNS, 256, 0}, &a);
    float *want = mem((size_t)b.n * channels * sizeof(*want)),
          *in = mem((size_t)(MOST + before) * channels * sizeof(*in));
    for (uint32_t i = 0; i < RUNS; i++) {
        const struct cuda_run *r = &b.runs[i];
        memcpy(in, b.states + r->block * b.floats, (size_t)before * channels * sizeof(*in));
        if (r->fresh) memset(in, 0, (size_t)before * channels * sizeof(*in));
        for (uint32_t t = 0; t < r->n; t++) {
            float *row = in + (size_t)(before + t) * channels;
            memcpy(row, x + (size_t)(r->row + t) * ld, channels * sizeof(*row));
            if (by) ref->mul(row, row, f + (size_t)(r->row + t) * ld, channels);
        }
        for (uint32_t t = 0; t < r->n; t++) {
            const float *rows[CUDA_TAPS];
            float *out = want + (size_t)(r->row + t) * channels;
            for (uint32_t j = 0; j < taps; j++) rows[j] = in + (size_t)(t + j) * channels;
            ref->recurrent.conv(out, rows, w, channels, bias ? add : NULL, taps, channels, silu);
            if (gate) ref->mul(out, g + (size_t)(r->row + t) * ld, out, channels);
        }
        conv_run(&b, r, in, channels, before);
    }
    same_floats(dev_down(a.out, (size_t)b.n * channels * sizeof(float)), want, (size_t)b.n * channels,
                "convolution of %u channels, %u taps, case %u", channels, taps, bits);
    same_states(&b, "a convolution");
    dev_reset();
}

void check_cuda_conv(void **state)
{
    rng_seed(1);
    for (unsigned i = 0; i < 32; i++) one_conv(i % 16);
}

/* --- scans --- */

/* The state of head @head of a run as it begins, and a copy of it to where a save wants it. */
static float *begin_head(struct batch *b, const struct cuda_run *r, size_t at, size_t size)
{
    float *s = b->states + r->block * b->floats + at;
    if (r->fresh) memset(s, 0, size * sizeof(*s));
    return s;
}

static void save_head(struct batch *b, const struct cuda_run *r, size_t at, size_t size)
{
    memcpy(b->states + b->saves[r->save].block * b->floats + at, b->states + r->block * b->floats + at,
           size * sizeof(float));
}

static void one_ssm(void)
{
    const uint32_t groups = 1 + rng_below(2), heads = groups * (1 + rng_below(3)), dim = 16 * (1 + rng_below(5)),
                   rows = 1 + rng_below(40), all = heads * dim, channels = all + 2 * groups * rows, ld = heads + 5;
    const size_t size = (size_t)rows * dim, offset = rng_below(7);
    struct batch b = random_batch(offset + heads * size);
    float *x = kv_floats((size_t)b.n * channels), *dt = kv_floats((size_t)b.n * ld), *bias = kv_floats(heads),
          *rate = kv_floats(heads), *d = kv_floats(heads), *want = mem((size_t)b.n * all * sizeof(*want));
    const struct cuda_ssm a = {.s = states_of(&b, offset),
                               .x = kv_up(x, (size_t)b.n * channels),
                               .dt = kv_up(dt, (size_t)b.n * ld),
                               .dt_bias = kv_up(bias, heads),
                               .a = kv_up(rate, heads),
                               .d = kv_up(d, heads),
                               .y = dev_poisoned((size_t)b.n * all * sizeof(float)),
                               .channels = channels,
                               .ld_dt = ld,
                               .heads = heads,
                               .dim = dim,
                               .groups = groups,
                               .rows = rows};
    dev_run("cuda_ssm", (struct cuda_grid){heads, RUNS, (dim + 31) / 32 * 32, (unsigned)(size * sizeof(float))}, &a);
    for (uint32_t t = 0; t < b.n; t++)
        ref->add(dt + (size_t)t * ld, bias, heads), ref->softplus(dt + (size_t)t * ld, heads);
    for (uint32_t i = 0; i < RUNS * heads; i++) {
        const struct cuda_run *r = &b.runs[i / heads];
        const uint32_t h = i % heads, group = h / (heads / groups);
        const size_t at = offset + h * size;
        float *s = begin_head(&b, r, at, size);
        for (uint32_t t = 0; t < r->n; t++) {
            const float *in = x + (size_t)(r->row + t) * channels;
            ref->recurrent.ssm(&(struct kern_ssm){.x = in + h * dim,
                                                  .b = in + all + group * rows,
                                                  .c = in + all + (groups + group) * rows,
                                                  .dt = dt + (size_t)(r->row + t) * ld + h,
                                                  .y = want + (size_t)(r->row + t) * all + h * dim,
                                                  .state = s,
                                                  .a = rate[h],
                                                  .d = d[h],
                                                  .ld = channels,
                                                  .ld_y = all,
                                                  .n = 1,
                                                  .rows = rows,
                                                  .dim = dim});
            if (r->n_saves && b.saves[r->save].n == t + 1) save_head(&b, r, at, size);
        }
    }
    same_floats(dev_down(a.y, (size_t)b.n * all * sizeof(float)), want, (size_t)b.n * all, "%u heads of %u, %u rows",
                heads, dim, rows);
    same_states(&b, "Mamba-2");
    dev_reset();
}

/* The token @t of the batch in head @h. */
static void delta_token(const struct cuda_delta *a, uint32_t t, uint32_t h, const float *const in[5], float *s,
                        float *out)
{
    const uint32_t each = a->heads / a->key_heads, mixed = h / each * 2 * each + h % each, dim = a->dim;
    const uint32_t key = a->alpha ? h % a->key_heads : h / each;
    const float *x = in[0] + (size_t)t * a->channels, *b = in[1] + (size_t)t * a->ld_beta;
    float q[HPARAMS_DELTA_MAX], k[HPARAMS_DELTA_MAX];
    float beta = 1 / (1 + kern_exp(-b[a->alpha ? h : mixed])),
          decay = (a->alpha ? in[2][(size_t)t * a->ld_alpha + h] : b[mixed + each]) + in[3][h];
    ref->softplus(&decay, 1);
    decay = kern_exp(decay * in[4][h]);
    ref->l2norm(q, x + key * dim, dim, a->eps, a->scale);
    ref->l2norm(k, x + (a->key_heads + key) * dim, dim, a->eps, 1);
    ref->recurrent.delta(&(struct kern_delta){.q = q,
                                              .k = k,
                                              .v = x + (2 * a->key_heads + h) * dim,
                                              .decay = &decay,
                                              .beta = &beta,
                                              .o = out + ((size_t)t * a->heads + h) * dim,
                                              .state = s,
                                              .n = 1,
                                              .dk = dim,
                                              .dv = dim});
}

static void one_delta(bool apart)
{
    const uint32_t keys = 1 + rng_below(2), heads = keys * (1 + rng_below(3)), dim = 16 * (1 + rng_below(8)),
                   channels = (2 * keys + heads) * dim, ld = 2 * heads + 3;
    const size_t size = (size_t)dim * dim, offset = rng_below(7);
    struct batch b = random_batch(offset + heads * size);
    const size_t all = (size_t)b.n * channels, gates = (size_t)b.n * ld, outs = (size_t)b.n * heads * dim;
    const float *in[5] = {kv_floats(all), kv_floats(gates), kv_floats(gates), kv_floats(heads), kv_floats(heads)};
    float *want = mem(outs * sizeof(*want));
    const struct cuda_delta a = {.s = states_of(&b, offset),
                                 .x = kv_up(in[0], all),
                                 .beta = kv_up(in[1], gates),
                                 .alpha = apart ? kv_up(in[2], gates) : NULL,
                                 .dt_bias = kv_up(in[3], heads),
                                 .a = kv_up(in[4], heads),
                                 .o = dev_poisoned(outs * sizeof(float)),
                                 .channels = channels,
                                 .ld_beta = ld,
                                 .ld_alpha = ld,
                                 .heads = heads,
                                 .key_heads = keys,
                                 .dim = dim,
                                 .eps = 1e-6f,
                                 .scale = 1 / sqrtf((float)dim)};
    const unsigned bytes = (unsigned)((size + 2 * (dim + 1)) * sizeof(float));
    dev_run("cuda_delta", (struct cuda_grid){heads, RUNS, (dim + 31) / 32 * 32, bytes}, &a);
    for (uint32_t i = 0; i < RUNS * heads; i++) {
        const struct cuda_run *r = &b.runs[i / heads];
        const size_t at = offset + i % heads * size;
        float *s = begin_head(&b, r, at, size);
        for (uint32_t t = 0; t < r->n; t++) {
            delta_token(&a, r->row + t, i % heads, in, s, want);
            if (r->n_saves && b.saves[r->save].n == t + 1) save_head(&b, r, at, size);
        }
    }
    same_floats(dev_down(a.o, outs * sizeof(float)), want, outs, "delta rule, %u heads of %u", heads, dim);
    same_states(&b, "the delta rule");
    dev_reset();
}

void check_cuda_scans(void **state)
{
    rng_seed(1);
    for (unsigned i = 0; i < 12; i++) one_ssm();
    for (unsigned i = 0; i < 12; i++) one_delta(i % 2);
}

/* --- the output --- */

static void one_output(uint32_t kind, bool norm, bool listed)
{
    const uint32_t n = 1 + rng_below(5), each = 32 * (1 + rng_below(4)), groups = 1 + rng_below(3), k = groups * each,
                   ld = k + rng_below(20), tokens = n + 3;
    const float *out = kv_floats((size_t)tokens * k), *z = kv_floats((size_t)tokens * ld), *w = kv_floats(k);
    uint32_t list[8];
    for (uint32_t i = 0; i < n; i++) list[i] = listed ? i + 3 : i;
    const struct cuda_state_out a = {.out = kv_up(out, (size_t)tokens * k),
                                     .z = kv_up(z, (size_t)tokens * ld),
                                     .w = norm ? kv_up(w, k) : NULL,
                                     .list = listed ? dev_up(list, n * sizeof(*list)) : NULL,
                                     .f = dev_poisoned((size_t)n * k * sizeof(float)),
                                     .q = dev_acts(n, k),
                                     .kind = kind,
                                     .k = k,
                                     .ld = ld,
                                     .each = each,
                                     .eps = 1e-5f};
    float *want = mem((size_t)n * k * sizeof(*want)), *gate = mem(k * sizeof(*gate));
    dev_run("cuda_state_out", (struct cuda_grid){n, 1, 256, (k + 1) * (unsigned)sizeof(float)}, &a);
    for (uint32_t i = 0; i < n; i++) {
        float *row = want + (size_t)i * k;
        memcpy(row, out + (size_t)list[i] * k, k * sizeof(*row));
        memcpy(gate, z + (size_t)list[i] * ld, k * sizeof(*gate));
        if (kind == CUDA_OUT_MAMBA) ref->silu_mul(gate, row, k), memcpy(row, gate, k * sizeof(*row));
        for (uint32_t g = 0; kind != CUDA_OUT_PLAIN && norm && g < k; g += each)
            ref->rmsnorm(row + g, row + g, kind == CUDA_OUT_MAMBA ? w + g : w, each, 1e-5f);
        if (kind == CUDA_OUT_DELTA) ref->silu_mul(gate, row, k), memcpy(row, gate, k * sizeof(*row));
    }
    same_floats(dev_down(a.f, (size_t)n * k * sizeof(float)), want, (size_t)n * k, "output of kind %u", kind);
    same_acts(&a.q, want, n, k, "output of a recurrent layer");
    dev_reset();
}

void check_cuda_state_out(void **state)
{
    rng_seed(1);
    for (unsigned i = 0; i < 24; i++) one_output(i % 3, i % 3 == CUDA_OUT_DELTA || i / 3 % 2, i / 6 % 2);
}

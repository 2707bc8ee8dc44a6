/* SPDX-License-Identifier: MIT */
/*
 * Recurrent layers, as daemon/backend/cpu/recurrent.c has them. Channels of a convolution and heads of a scan are
 * independent; the tokens of a run are computed one after the other.
 */
#include "daemon/backend/cuda/cuda.h"
#include <math.h>

#define THREADS 256

enum { QKV, Z, BETA, ALPHA }; /* products of the delta rule's input: daemon/backend/cpu/delta.c */

static enum recurrent_kind kind_of(const struct cuda *c)
{
    return c->host->base.hparams.desc->recurrent.kind;
}

static bool is_delta(const struct cuda *c)
{
    return kind_of(c) == RECURRENT_DELTA || kind_of(c) == RECURRENT_DELTA_TILED;
}

unsigned cuda_scan_bytes(const struct hparams *s)
{
    const struct hparams_recurrent *x = &s->recurrent;
    const enum recurrent_kind kind = s->desc->recurrent.kind;
    const unsigned dim = x->head_dim, rows = kind == RECURRENT_MAMBA2 ? x->state : dim;
    if (!x->taps || kind == RECURRENT_CONV) return 0;
    return (rows * dim + (kind == RECURRENT_MAMBA2 ? 0 : 2 * (dim + 1))) * (unsigned)sizeof(float);
}

int cuda_find_states(struct cuda *c)
{
    const struct hparams *s = &c->host->base.hparams;
    const unsigned row = (s->recurrent.out + 1) * (unsigned)sizeof(float);
    if (!s->recurrent.taps) return 0;
    int r = cuda_kernel(&c->device, &c->kern.states.conv, "cuda_conv", 0);
    if (!r) r = cuda_kernel(&c->device, &c->kern.states.keep, "cuda_conv_keep", 0);
    if (!r) r = cuda_kernel(&c->device, &c->kern.states.out, "cuda_state_out", row);
    if (!r) r = cuda_kernel(&c->device, &c->kern.states.copy, "cuda_state_copy", 0);
    if (!r && kind_of(c) != RECURRENT_CONV)
        r = cuda_kernel(&c->device, &c->kern.states.scan, is_delta(c) ? "cuda_delta" : "cuda_ssm", cuda_scan_bytes(s));
    return r;
}

uint32_t cuda_state_products(const struct cuda_pass *p, struct product set[RECURRENT_INPUTS])
{
    const struct cuda *c = p->c;
    uint32_t n = 0;
    for (uint32_t i = 0; i < RECURRENT_INPUTS; i++)
        if (c->host->base.hparams.recurrent.in[i])
            set[n++] = (struct product){&p->cpu.w->recurrent.in[i], c->buf.states.in[i]};
    return n;
}

/* The states of the pass's layer, from float @at on. */
static struct cuda_states states_of(const struct cuda_pass *p, size_t at)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    const uint32_t g = s->n_groups - 1;
    const struct cuda_kv_part *kv = &c->kv[g];
    float *mem = (float *)(void *)kv->mem + (size_t)(p->cpu.state_layer - kv->first) * s->recurrent.floats + at;
    return (struct cuda_states){.runs = cuda_note(c, p->runs),
                                .saves = cuda_note(c, p->saves),
                                .mem = mem,
                                .stride = kv->stride / sizeof(float)};
}

/* The convolution of all tokens, whose inputs are in @a. */
static int convolve(const struct cuda_pass *p, struct cuda_conv *a)
{
    const struct cuda *c = p->c;
    const struct hparams_recurrent *s = &c->host->base.hparams.recurrent;
    a->s = states_of(p, 0);
    a->run_of = cuda_note(c, p->run_of);
    a->w = cuda_weight(c, p->cpu.w->recurrent.conv);
    a->bias = cuda_weight(c, p->cpu.w->recurrent.conv_bias);
    a->out = c->buf.states.conv;
    a->channels = s->channels;
    a->taps = s->taps;
    struct cuda_grid g = {cuda_divide(s->channels, THREADS), p->cpu.n, THREADS, 0};
    int r = cuda_launch(&c->device, c->kern.states.conv, g, a);
    g.y = p->n_runs;
    return r ? r : cuda_launch(&c->device, c->kern.states.keep, g, a);
}

/* LFM2: out = c * conv(b * x) of the product's three vectors. */
static int short_conv(const struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const uint32_t dim = c->host->base.hparams.dim;
    const float *b = c->buf.states.in[0];
    struct cuda_conv a = {.x = b + 2 * (size_t)dim, .by = b, .gate = b + dim, .ld = 3 * dim};
    return convolve(p, &a);
}

static size_t behind_conv(const struct hparams_recurrent *s)
{
    return (size_t)(s->taps - 1) * s->channels;
}

static int mamba(const struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct hparams *y = &c->host->base.hparams;
    const struct hparams_recurrent *s = &y->recurrent;
    const struct layer_recurrent *w = &p->cpu.w->recurrent;
    struct cuda_conv conv = {.x = c->buf.states.in[0] + s->out, .ld = s->in[0], .silu = 1};
    const struct cuda_ssm a = {.s = states_of(p, behind_conv(s)),
                               .x = c->buf.states.conv,
                               .dt = c->buf.states.in[0] + s->out + s->channels,
                               .dt_bias = cuda_weight(c, w->dt_bias),
                               .a = cuda_weight(c, w->a),
                               .d = cuda_weight(c, w->d),
                               .y = c->buf.states.out,
                               .channels = s->channels,
                               .ld_dt = s->in[0],
                               .heads = s->heads,
                               .dim = s->head_dim,
                               .groups = s->groups,
                               .rows = s->state};
    const struct cuda_grid g = {s->heads, p->n_runs, cuda_divide(s->head_dim, CUDA_WARP) * CUDA_WARP,
                                cuda_scan_bytes(y)};
    int r = convolve(p, &conv);
    return r ? r : cuda_launch(&c->device, c->kern.states.scan, g, &a);
}

static int delta(const struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct hparams *y = &c->host->base.hparams;
    const struct hparams_recurrent *s = &y->recurrent;
    const struct layer_recurrent *w = &p->cpu.w->recurrent;
    struct cuda_conv conv = {.x = c->buf.states.in[QKV], .ld = s->channels, .silu = 1};
    const struct cuda_delta a = {.s = states_of(p, behind_conv(s)),
                                 .x = c->buf.states.conv,
                                 .beta = c->buf.states.in[BETA],
                                 .alpha = s->in[ALPHA] ? c->buf.states.in[ALPHA] : NULL,
                                 .dt_bias = cuda_weight(c, w->dt_bias),
                                 .a = cuda_weight(c, w->a),
                                 .o = c->buf.states.out,
                                 .channels = s->channels,
                                 .ld_beta = s->in[BETA],
                                 .ld_alpha = s->in[ALPHA],
                                 .heads = s->heads,
                                 .key_heads = s->key_heads,
                                 .dim = s->head_dim,
                                 .eps = y->rms_eps,
                                 .scale = 1 / sqrtf((float)s->head_dim)};
    const struct cuda_grid g = {s->heads, p->n_runs, cuda_divide(s->head_dim, CUDA_WARP) * CUDA_WARP,
                                cuda_scan_bytes(y)};
    int r = convolve(p, &conv);
    return r ? r : cuda_launch(&c->device, c->kern.states.scan, g, &a);
}

int cuda_scan(const struct cuda_pass *p)
{
    if (kind_of(p->c) == RECURRENT_CONV) return short_conv(p);
    return is_delta(p->c) ? delta(p) : mamba(p);
}

int cuda_state_output(const struct cuda_pass *p, const uint32_t *list)
{
    const struct cuda *c = p->c;
    const struct hparams *y = &c->host->base.hparams;
    const struct hparams_recurrent *s = &y->recurrent;
    const struct product out = {&p->cpu.w->recurrent.out, c->buf.h};
    const bool conv = kind_of(c) == RECURRENT_CONV, is = is_delta(c);
    struct cuda_state_out a = {.out = conv ? c->buf.states.conv : c->buf.states.out,
                               .z = c->buf.states.in[is ? Z : 0],
                               .w = cuda_weight(c, p->cpu.w->recurrent.norm),
                               .list = list,
                               .kind = conv ? CUDA_OUT_PLAIN
                                       : is ? CUDA_OUT_DELTA
                                            : CUDA_OUT_MAMBA,
                               .k = s->out,
                               .ld = is ? s->out : s->in[0],
                               .each = conv ? s->out
                                       : is ? s->head_dim
                                            : s->out / s->groups,
                               .eps = y->rms_eps};
    if (cpu_quantized(&out, 1)) a.q = cuda_acts_of(p, c->buf.states.out_acts);
    if (cuda_reads_plain(p, &out, 1)) a.f = c->buf.states.rows;
    const struct cuda_grid g = {p->n, 1, THREADS, (s->out + 1) * (unsigned)sizeof(float)};
    int r = cuda_launch(&c->device, c->kern.states.out, g, &a);
    return r ? r : cuda_products(p, &out, 1, c->buf.states.rows, &c->buf.states.out_acts);
}

int cuda_copy_state(const struct cuda *c, uint32_t group, uint32_t dst, uint32_t src)
{
    const uint64_t n = c->kv[group].stride / sizeof(float);
    float *mem = (float *)(void *)c->kv[group].mem;
    const struct cuda_state_copy a = {.to = mem + dst * n, .from = mem + src * n, .n = n};
    return cuda_launch(&c->device, c->kern.states.copy,
                       (struct cuda_grid){cuda_divide((uint32_t)n, THREADS), 1, THREADS, 0}, &a);
}

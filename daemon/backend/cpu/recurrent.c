/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cpu/recurrent.h"
#include <string.h>

const struct recurrent_ops *recurrent_of(const struct hparams *s)
{
    static const struct recurrent_ops *const kinds[] = {[RECURRENT_CONV] = &recurrent_shortconv,
                                                        [RECURRENT_MAMBA2] = &recurrent_mamba2,
                                                        [RECURRENT_DELTA] = &recurrent_delta,
                                                        [RECURRENT_DELTA_TILED] = &recurrent_delta};
    return kinds[s->desc->recurrent.kind];
}

uint32_t recurrent_products(const struct pass *p, struct product set[RECURRENT_INPUTS])
{
    const struct hparams *s = &p->c->base.hparams;
    uint32_t n = 0;
    for (uint32_t i = 0; i < RECURRENT_INPUTS; i++)
        if (s->recurrent.in[i]) set[n++] = (struct product){&p->w->recurrent.in[i], p->c->scratch.recurrent.in[i]};
    return n;
}

float *recurrent_state(const struct pass *p, uint32_t block)
{
    const struct hparams *s = &p->c->base.hparams;
    return kv_memory_state(&p->c->kv[s->n_groups - 1], block) + (size_t)p->state_layer * s->recurrent.floats;
}

struct job {
    const struct pass *p;
    recurrent_fn fn;
    uint32_t parts;
};

static void run_parts(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct job *j = ctx;
    for (uint32_t i = begin; i < end; i++) j->fn(j->p, &j->p->c->scratch.recurrent.runs[i / j->parts], i % j->parts);
}

void recurrent_run(struct pass *p, uint32_t parts, recurrent_fn fn)
{
    struct job j = {p, fn, parts};
    cpu_run(p, TIMING_ATTENTION, run_parts, &j, parts * p->runs, 1, 1);
}

/* Row @i of the last inputs before the entry, then of its own. */
static const float *input(const float *old, uint32_t before, const float *x, size_t ld, uint32_t i)
{
    return i < before ? old + i * RECURRENT_CHANNELS : x + (i - before) * ld;
}

/* The state after @n tokens of the entry. */
static void keep(float *state, size_t channels, uint32_t width, const float *old, uint32_t before, const float *x,
                 size_t ld, uint32_t n)
{
    for (uint32_t i = 0; i < before; i++)
        memcpy(state + i * channels, input(old, before, x, ld, n + i), width * sizeof(*state));
}

uint32_t recurrent_conv(const struct pass *p, const struct recurrence *r, uint32_t part, float *x, size_t ld, bool silu,
                        uint32_t *n)
{
    const struct layer_recurrent *y = &p->w->recurrent;
    const struct hparams_recurrent *s = &p->c->base.hparams.recurrent;
    const struct batch_entry *e = r->entry;
    const uint32_t first = part * RECURRENT_CHANNELS, before = s->taps - 1;
    const uint32_t width = s->channels - first < RECURRENT_CHANNELS ? s->channels - first : RECURRENT_CHANNELS;
    float old[(RECURRENT_TAPS_MAX - 1) * RECURRENT_CHANNELS], *state = recurrent_state(p, e->state.block) + first;
    x += first;
    for (uint32_t i = 0; i < before; i++) {
        if (e->pos)
            memcpy(old + i * RECURRENT_CHANNELS, state + (size_t)i * s->channels, width * sizeof(*old));
        else
            memset(old + i * RECURRENT_CHANNELS, 0, width * sizeof(*old));
    }
    for (uint32_t i = 0; i < e->state.n_saves; i++) {
        float *to = recurrent_state(p, e->state.saves[i].block) + first;
        keep(to, s->channels, width, old, before, x, ld, e->state.saves[i].n);
    }
    keep(state, s->channels, width, old, before, x, ld, e->n);
    for (uint32_t t = e->n; t-- > 0;) { /* each row replaces the newest of its inputs */
        const float *rows[RECURRENT_TAPS_MAX];
        for (uint32_t i = 0; i < s->taps; i++) rows[i] = input(old, before, x, ld, t + i);
        p->c->kern->recurrent.conv(x + t * ld, rows, y->conv + first, s->channels,
                                   y->conv_bias ? y->conv_bias + first : NULL, s->taps, width, silu);
    }
    *n = width;
    return first;
}

static void finish_rows(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    const struct recurrent_ops *ops = recurrent_of(&p->c->base.hparams);
    for (size_t i = begin; i < end; i++) {
        if (ops->finish) ops->finish(p, i);
        cpu_quantize_row(p, &p->c->scratch.recurrent.out, i);
    }
}

void recurrent_output(struct pass *p)
{
    struct scratch *s = &p->c->scratch;
    const struct product out = {&p->w->recurrent.out, s->h.f};
    p->quantize = cpu_quantized(&out, 1);
    if (p->quantize || recurrent_of(&p->c->base.hparams)->finish) cpu_each(p, finish_rows, p->n);
    cpu_products(p, &out, 1, &s->recurrent.out, p->n);
}

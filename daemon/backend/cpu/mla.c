/* SPDX-License-Identifier: MIT */
/*
 * Multi-head latent attention with compressed KV. A token's K is a norm of kv_rank values, then rope rotated ones; its
 * V is the first kv_rank of them. A head's query is nope values, which its matrix k_b expands to kv_rank, then rope
 * rotated ones. What a head gets from attention is reduced by its matrix v_b. All else is attention with one KV head.
 */
#include "daemon/backend/cpu/cpu.h"
#include <string.h>

static const struct hparams_mla *mla_of(const struct pass *p)
{
    return &p->c->base.hparams.mla;
}

void cpu_mla_products(const struct pass *p, struct product *set)
{
    struct scratch *s = &p->c->scratch;
    set[0] = (struct product){&p->w->k, s->k};
    if (mla_of(p)->q_rank)
        set[1] = (struct product){&p->w->mla.q_a, s->mla.low.f};
    else
        set[1] = (struct product){&p->w->q, s->q};
}

static void rotate(const struct pass *p, size_t i, float *x, bool sinks)
{
    const struct cpu *c = p->c;
    const uint32_t rope = mla_of(p)->rope;
    const float *cs = sinks ? c->scratch.sink_cs : c->scratch.cs[0];
    if (hparams_rotates(&c->base.hparams, p->layer))
        c->kern->rope(x, 1, rope, rope, cs + i * rope, c->base.hparams.desc->rope.neox);
}

void cpu_mla_place(const struct pass *p, size_t i)
{
    const struct cpu *c = p->c;
    const struct hparams *y = &c->base.hparams;
    const struct token *t = &c->scratch.tokens[i];
    float *k = c->scratch.k + i * y->head_dim;
    c->kern->rmsnorm(k, k, p->w->k_norm, y->mla.kv_rank, y->rms_eps);
    rotate(p, i, k + y->mla.kv_rank, false);
    uint8_t *block = kv_memory_k(&c->kv[p->group], p->group_layer, token_block(p, t, t->pos), 0);
    c->kern->kv_store[c->base.config.kv_type](block, NULL, t->pos % KV_BLOCK, k, NULL, y->head_dim);
}

void cpu_mla_query_heads(const struct pass *p, size_t i, uint32_t first, uint32_t n, bool sinks, float *out)
{
    const struct hparams *y = &p->c->base.hparams;
    const struct hparams_mla *m = &y->mla;
    const struct scratch *s = &p->c->scratch;
    const size_t wide = m->nope + m->rope;
    for (uint32_t h = first; h < first + n; h++, out += y->head_dim) {
        memcpy(out, s->mla.absorbed + ((size_t)h * p->n + i) * m->kv_rank, m->kv_rank * sizeof(*out));
        memcpy(out + m->kv_rank, s->q + (i * y->heads + h) * wide + m->nope, m->rope * sizeof(*out));
        rotate(p, i, out + m->kv_rank, sinks);
    }
}

static void norm_low(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    const struct acts *low = &p->c->scratch.mla.low;
    for (size_t i = begin; i < end; i++) {
        float *x = low->f + i * low->k;
        p->c->kern->rmsnorm(x, x, p->w->q_norm, low->k, p->c->base.hparams.rms_eps);
        cpu_quantize_row(p, low, i);
    }
}

/* The parts that are not rotated, by head. */
static void split_queries(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    const struct hparams *y = &p->c->base.hparams;
    const struct scratch *s = &p->c->scratch;
    const size_t nope = y->mla.nope, wide = nope + y->mla.rope;
    for (size_t i = begin; i < end; i++)
        for (uint32_t h = 0; h < y->heads; h++) {
            const size_t row = (size_t)h * p->n + i;
            float *x = s->mla.nope.f + row * nope;
            memcpy(x, s->q + (i * y->heads + h) * wide, nope * sizeof(*x));
            cpu_quantize(p, &s->mla.nope, &s->mla.groups[h], row, 0, x, nope);
        }
}

void cpu_mla_queries(struct pass *p)
{
    const struct hparams *y = &p->c->base.hparams;
    struct scratch *s = &p->c->scratch;
    const struct product q = {&p->w->q, s->q}, expand = {&p->w->mla.k_b, s->mla.absorbed};
    for (uint32_t h = 0; h < y->heads; h++) s->mla.groups[h] = (struct group){h, h * p->n, p->n};
    if (y->mla.q_rank) {
        p->quantize = cpu_quantized(&q, 1);
        cpu_each(p, norm_low, p->n);
        cpu_products(p, &q, 1, &s->mla.low, p->n);
    }
    p->quantize = cpu_quantized(&expand, 1);
    cpu_each(p, split_queries, p->n);
    cpu_group_products(p, &expand, 1, &s->mla.nope, s->mla.groups, y->heads);
}

/* The values, by token. */
static void join_values(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    const struct hparams *y = &p->c->base.hparams;
    const struct scratch *s = &p->c->scratch;
    const size_t value = y->mla.value;
    for (size_t i = begin; i < end; i++) {
        for (uint32_t h = 0; h < y->heads; h++)
            memcpy(s->att.f + (i * y->heads + h) * value, s->mla.value + ((size_t)h * p->n + i) * value,
                   value * sizeof(float));
        cpu_quantize_row(p, &s->att, i);
    }
}

void cpu_mla_values(struct pass *p, bool quantize)
{
    struct scratch *s = &p->c->scratch;
    const struct product reduce = {&p->w->mla.v_b, s->mla.value};
    cpu_group_products(p, &reduce, 1, &s->mla.latent, s->mla.groups, p->c->base.hparams.heads);
    p->quantize = quantize;
    cpu_each(p, join_values, p->n);
}

/* SPDX-License-Identifier: MIT */
/* Queries and keys between their products and attention: bias, norm, rotation; K and V go to their KV blocks. */
#include "daemon/backend/cpu/cpu.h"
#include <math.h>
#include <string.h>

#define PLACED_ALONE 4 /* tokens whose K and V one thread stores: as long as another one needs to come */

/* Norm of @n heads of q or k from head @first on: x[n][head_dim]. */
static void norm_heads(const struct pass *p, float *x, uint32_t first, uint32_t n, const float *norm, const float *bias)
{
    const struct hparams *y = &p->c->base.hparams;
    const size_t dim = p->heads.head_dim, apart = y->desc->qk_norm == QK_NORM_EACH ? dim : 0;
    if (!norm) return;
    if (y->desc->qk_norm == QK_NORM_WHOLE) /* n is all heads */
        cpu_norm(p, x, x, norm, bias, n * dim);
    else
        for (size_t h = 0; h < n; h++) cpu_norm(p, x + h * dim, x + h * dim, norm + (first + h) * apart, NULL, dim);
}

/* Rotate heads of token @i, if the layer does so. */
static void rotate(const struct pass *p, size_t i, float *x, uint32_t heads, bool sinks)
{
    const struct cpu *c = p->c;
    const struct hparams *y = &c->base.hparams;
    const uint32_t which = hparams_window(y, p->layer) ? hparams_ropes(y) - 1 : 0;
    const float *cs = sinks ? c->scratch.sink_cs : c->scratch.cs[which];
    if (hparams_rotates(y, p->layer))
        c->kern->rope(x, heads, p->heads.head_dim, p->heads.rope_dim, cs + i * p->heads.rope_dim, y->desc->rope.neox);
}

/* Heads of q or k of a token, from head @first on. */
struct heads {
    float *x; /* [n][head_dim] */
    uint32_t first, n;
    const float *bias, *norm; /* of all heads, or NULL */
    const float *norm_bias;   /* of a norm of all heads, or NULL */
};

static void unit_norm(const struct pass *p, float *head)
{
    p->c->kern->rmsnorm(head, head, p->c->ones, p->heads.head_dim, p->c->base.hparams.rms_eps);
}

/* Bias, norm and rotation. */
static void finish(const struct pass *p, size_t i, const struct heads *h, bool sinks)
{
    const struct hparams *y = &p->c->base.hparams;
    const bool after = y->desc->block.qk_after_rope;
    const size_t dim = p->heads.head_dim;
    if (h->bias) p->c->kern->add(h->x, h->bias + h->first * dim, h->n * dim);
    if (!after) norm_heads(p, h->x, h->first, h->n, h->norm, h->norm_bias);
    rotate(p, i, h->x, h->n, sinks);
    if (y->unit_norm && hparams_rotates(y, p->layer))
        for (size_t j = 0; j < h->n; j++) unit_norm(p, h->x + j * dim);
    if (after) norm_heads(p, h->x, h->first, h->n, h->norm, h->norm_bias);
}

float cpu_temperature(const struct pass *p, uint32_t pos)
{
    const struct hparams *y = &p->c->base.hparams;
    const struct hparams_temperature *t = &y->temperature;
    if (!hparams_warms(y, p->layer, pos)) return 1;
    return (float)(1 + (double)t->scale * log(1.0 + (pos + t->first) / t->floor));
}

void cpu_place_heads(const struct pass *p, size_t i, uint32_t first, uint32_t n)
{
    const struct cpu *c = p->c;
    const struct hparams *y = &c->base.hparams;
    if (y->mla.kv_rank) {
        cpu_mla_place(p, i);
        return;
    }
    const struct token *t = &c->scratch.tokens[i];
    const struct kv_memory *kv = &c->kv[p->group];
    const size_t dim = p->heads.head_dim, row = (i * p->heads.kv_heads + first) * dim;
    float *k = c->scratch.k + row, *v = c->scratch.v + row;
    if (y->desc->qk_norm == QK_NORM_WHOLE) {
        float *q = c->scratch.q + i * y->heads * dim;
        if (p->w->q.bias) c->kern->add(q, p->w->q.bias, y->heads * dim);
        norm_heads(p, q, 0, y->heads, p->w->q_norm, p->w->encoder.q_norm_bias);
    }
    if (!p->w->v.rows) memcpy(v, k, n * dim * sizeof(*v)); /* arch_attention.k_is_v */
    finish(p, i, &(struct heads){k, first, n, p->w->k.bias, p->w->k_norm, p->w->encoder.k_norm_bias}, false);
    if (p->w->v.bias) c->kern->add(v, p->w->v.bias + first * dim, n * dim);
    for (uint32_t h = 0; y->desc->attention.v_norm && h < n; h++)
        cpu_norm(p, v + h * dim, v + h * dim, c->ones, NULL, dim);
    const size_t half = kv_memory_shape(kv, p->group_layer)->half;
    for (uint32_t h = 0; h < n; h++) {
        uint8_t *block = kv_memory_k(kv, p->group_layer, token_block(p, t, t->pos), first + h);
        c->kern->kv_store[kv->type](block, block + half, t->pos % KV_BLOCK, k + h * dim, v + h * dim, dim);
    }
}

/* All heads of a token have to be placed at once. */
static bool heads_together(const struct pass *p)
{
    return p->c->base.hparams.mla.kv_rank || p->c->base.hparams.desc->qk_norm == QK_NORM_WHOLE;
}

/* Attention places the K and V of tokens that are alone. */
static void place_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    for (size_t i = begin; i < end; i++)
        if (!p->c->scratch.tokens[i].alone) cpu_place_heads(p, i, 0, p->heads.kv_heads);
}

/* The same of one KV head for up to KV_BLOCK tokens. */
static void place_head(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    for (uint32_t unit = begin; unit < end; unit++) {
        const uint32_t head = unit % p->heads.kv_heads, first = unit / p->heads.kv_heads * KV_BLOCK;
        for (uint32_t i = first; i < p->n && i < first + KV_BLOCK; i++)
            if (!p->c->scratch.tokens[i].alone) cpu_place_heads(p, i, head, 1);
    }
}

/* The tokens of a block have the same cache lines of K, so that two threads which place different tokens of it would
 * wait for each other: a thread has heads of its own. */
void cpu_place_all(struct pass *p)
{
    const uint32_t units = (p->n + KV_BLOCK - 1) / KV_BLOCK * p->heads.kv_heads;
    if (heads_together(p))
        cpu_each(p, place_tokens, p->n);
    else
        cpu_run(p, TIMING_VECTOR, place_head, p, units, p->n <= PLACED_ALONE ? units : 1, 1);
}

/* Queries before their temperature. */
static void query_heads(const struct pass *p, size_t i, uint32_t first, uint32_t n, bool sinks, float *out)
{
    const struct hparams *y = &p->c->base.hparams;
    const size_t dim = p->heads.head_dim;
    memcpy(out, p->c->scratch.q + (i * y->heads + first) * dim, n * dim * sizeof(*out));
    const bool done = y->desc->qk_norm == QK_NORM_WHOLE; /* cpu_place_heads */
    finish(p, i, &(struct heads){out, first, n, done ? NULL : p->w->q.bias, done ? NULL : p->w->q_norm, NULL}, sinks);
}

void cpu_query_heads(const struct pass *p, size_t i, uint32_t first, uint32_t n, bool sinks, float *out)
{
    const struct hparams *y = &p->c->base.hparams;
    const float by = cpu_temperature(p, p->c->scratch.tokens[i].pos);
    (y->mla.kv_rank ? cpu_mla_query_heads : query_heads)(p, i, first, n, sinks, out);
    if (by != 1) p->c->kern->scale(out, by, n * p->heads.head_dim);
}

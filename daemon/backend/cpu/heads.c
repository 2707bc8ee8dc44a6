/* SPDX-License-Identifier: MIT */
/* Queries and keys between their products and attention: bias, norm, rotation; K and V go to their KV blocks. */
#include "daemon/backend/cpu/cpu.h"
#include <math.h>
#include <string.h>

/* Norm of @n heads of q or k from head @first on: x[n][head_dim]. */
static void norm_heads(const struct pass *p, float *x, uint32_t first, uint32_t n, const float *norm)
{
    const struct hparams *y = &p->c->base.hparams;
    const size_t dim = y->head_dim, apart = y->desc->qk_norm == QK_NORM_EACH ? dim : 0;
    if (!norm) return;
    if (y->desc->qk_norm == QK_NORM_WHOLE) /* n is all heads */
        cpu_norm(p, x, x, norm, NULL, n * dim);
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
        c->kern->rope(x, heads, y->head_dim, y->rope_dim, cs + i * y->rope_dim, y->desc->neox);
}

/* Heads of q or k of a token, from head @first on. */
struct heads {
    float *x; /* [n][head_dim] */
    uint32_t first, n;
    const float *bias, *norm; /* of all heads, or NULL */
};

/* Bias, norm and rotation. */
static void finish(const struct pass *p, size_t i, const struct heads *h, bool sinks)
{
    const struct hparams *y = &p->c->base.hparams;
    const bool after = y->desc->block.qk_after_rope;
    if (h->bias) p->c->kern->add(h->x, h->bias + (size_t)h->first * y->head_dim, (size_t)h->n * y->head_dim);
    if (!after) norm_heads(p, h->x, h->first, h->n, h->norm);
    rotate(p, i, h->x, h->n, sinks);
    if (after) norm_heads(p, h->x, h->first, h->n, h->norm);
}

/* Attention's temperature at a position (struct hparams_temperature), rounded to f32. */
static float temperature(const struct hparams *y, uint32_t pos)
{
    return (float)(1 + (double)y->temperature.scale * log(1.0 + pos / y->temperature.floor));
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
    const size_t dim = y->head_dim, row = (i * y->kv_heads + first) * dim;
    float *k = c->scratch.k + row, *v = c->scratch.v + row;
    if (y->desc->qk_norm == QK_NORM_WHOLE) {
        float *q = c->scratch.q + i * y->heads * dim;
        if (p->w->q.bias) c->kern->add(q, p->w->q.bias, y->heads * dim);
        norm_heads(p, q, 0, y->heads, p->w->q_norm);
    }
    finish(p, i, &(struct heads){k, first, n, p->w->k.bias, p->w->k_norm}, false);
    if (p->w->v.bias) c->kern->add(v, p->w->v.bias + first * dim, n * dim);
    for (uint32_t h = 0; h < n; h++) {
        uint8_t *block = kv_memory_k(kv, p->group_layer, t->entry->blocks[p->group][t->pos / KV_BLOCK], first + h);
        c->kern->kv_store[c->base.config.kv_type](block, block + kv->half, t->pos % KV_BLOCK, k + h * dim, v + h * dim,
                                                  dim);
    }
}

/* Queries before their temperature. */
static void query_heads(const struct pass *p, size_t i, uint32_t first, uint32_t n, bool sinks, float *out)
{
    const struct hparams *y = &p->c->base.hparams;
    const size_t dim = y->head_dim;
    memcpy(out, p->c->scratch.q + (i * y->heads + first) * dim, n * dim * sizeof(*out));
    const bool done = y->desc->qk_norm == QK_NORM_WHOLE; /* cpu_place_heads */
    finish(p, i, &(struct heads){out, first, n, done ? NULL : p->w->q.bias, done ? NULL : p->w->q_norm}, sinks);
}

void cpu_query_heads(const struct pass *p, size_t i, uint32_t first, uint32_t n, bool sinks, float *out)
{
    const struct hparams *y = &p->c->base.hparams;
    const uint32_t pos = p->c->scratch.tokens[i].pos;
    const size_t dim = y->head_dim;
    (y->mla.kv_rank ? cpu_mla_query_heads : query_heads)(p, i, first, n, sinks, out);
    if (y->temperature.scale != 0 && pos >= y->temperature.floor) p->c->kern->scale(out, temperature(y, pos), n * dim);
}

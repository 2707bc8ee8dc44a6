/* SPDX-License-Identifier: MIT */
/* Queries and keys between their products and attention: bias, norm, rotation; K and V go to their KV blocks. */
#include "daemon/backend/cpu/cpu.h"
#include <string.h>

/* Bias and norm of @n heads of q or k from head @first on: x[n][head_dim]. */
static void finish(const struct pass *p, float *x, uint32_t first, uint32_t n, const float *bias, const float *norm)
{
    const struct hparams *y = &p->c->base.hparams;
    const struct kernels *k = p->c->kern;
    const size_t dim = y->head_dim;
    if (bias) k->add(x, bias + first * dim, n * dim);
    if (y->desc->qk_norm == QK_NORM_WHOLE) k->rmsnorm(x, x, norm, n * dim, y->rms_eps); /* n is all heads */
    for (uint32_t h = 0; y->desc->qk_norm == QK_NORM_HEADS && h < n; h++)
        k->rmsnorm(x + h * dim, x + h * dim, norm, dim, y->rms_eps);
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

void cpu_place_heads(const struct pass *p, size_t i, uint32_t first, uint32_t n)
{
    const struct cpu *c = p->c;
    const struct hparams *y = &c->base.hparams;
    const struct token *t = &c->scratch.tokens[i];
    const struct kv_memory *kv = &c->kv[p->group];
    const size_t dim = y->head_dim, row = (i * y->kv_heads + first) * dim;
    float *k = c->scratch.k + row, *v = c->scratch.v + row;
    if (y->desc->qk_norm == QK_NORM_WHOLE)
        finish(p, c->scratch.q + i * y->heads * dim, 0, y->heads, p->w->q.bias, p->w->q_norm);
    finish(p, k, first, n, p->w->k.bias, p->w->k_norm);
    rotate(p, i, k, n, false);
    if (p->w->v.bias) c->kern->add(v, p->w->v.bias + first * dim, n * dim);
    for (uint32_t h = 0; h < n; h++) {
        uint8_t *block = kv_memory_k(kv, p->group_layer, t->entry->blocks[p->group][t->pos / KV_BLOCK], first + h);
        c->kern->kv_store[c->base.config.kv_type](block, block + kv->half, t->pos % KV_BLOCK, k + h * dim, v + h * dim,
                                                  dim);
    }
}

void cpu_query_heads(const struct pass *p, size_t i, uint32_t first, uint32_t n, bool sinks, float *out)
{
    const struct hparams *y = &p->c->base.hparams;
    const size_t dim = y->head_dim;
    memcpy(out, p->c->scratch.q + (i * y->heads + first) * dim, n * dim * sizeof(*out));
    if (y->desc->qk_norm != QK_NORM_WHOLE) finish(p, out, first, n, p->w->q.bias, p->w->q_norm);
    rotate(p, i, out, n, sinks);
}

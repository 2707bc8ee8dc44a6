/* SPDX-License-Identifier: MIT */
/*
 * A mixture of experts with an ordinary feed-forward beside it (Gemma 4). Both read the same residual, with norms of
 * their own, and their outputs are normed before their sum; the router has a norm of its own, too:
 *
 *     scores = R ((rmsnorm(x) * w) * (1 / sqrt(dim)))
 *     out    = norm(experts of norm(x)) + norm(feed-forward of norm(x))
 */
#include "daemon/backend/cpu/cpu.h"
#include <math.h>

static void route_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    const size_t dim = p->c->base.hparams.dim;
    for (size_t i = begin; i < end; i++) {
        float *h = p->c->scratch.h.f + i * dim;
        cpu_norm(p, h, p->c->scratch.x + i * dim, p->w->beside.router_norm, NULL, dim);
        p->c->kern->scale(h, (float)(1 / sqrt((double)dim)), dim);
        cpu_quantize_row(p, &p->c->scratch.h, i);
    }
}

static void add_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    const size_t dim = p->c->base.hparams.dim;
    for (size_t i = begin; i < end; i++) {
        float *h = p->c->scratch.h.f + i * dim, *beside = p->c->scratch.beside + i * dim;
        cpu_norm(p, h, h, p->w->beside.experts_post_norm, NULL, dim);
        cpu_norm(p, beside, beside, p->w->beside.post_norm, NULL, dim);
        p->c->kern->add(h, beside, dim);
    }
}

void cpu_experts_beside(struct pass *p)
{
    struct scratch *s = &p->c->scratch;
    const struct product in[] = {{&p->w->beside.gate, NULL}, {&p->w->beside.up, NULL}};
    const struct product out = {&p->w->beside.down, s->beside}, router = {&p->w->router, s->moe.route};
    p->norm = p->w->ffn_norm;
    p->norm_bias = NULL;
    p->quantize = cpu_quantized(in, 2);
    cpu_norm_each(p);
    p->pending = false; /* it is joined */
    p->quantize = cpu_quantized(&out, 1);
    cpu_gated(p, &p->w->beside.gate, &p->w->beside.up, &s->h, NULL, 0);
    cpu_products(p, &out, 1, &s->gated, p->n);
    p->quantize = cpu_quantized(&router, 1);
    cpu_each(p, route_tokens, p->n);
    cpu_products(p, &router, 1, &s->h, p->n);
    p->norm = p->w->beside.experts_norm;
    p->quantize = false; /* cpu_chosen_experts gathers the rows, and quantizes them then */
    cpu_norm_each(p);
    cpu_chosen_experts(p);
    cpu_each(p, add_tokens, p->n);
}

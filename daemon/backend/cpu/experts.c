/* SPDX-License-Identifier: MIT */
/*
 * A mixture of experts. Each token goes to those that its router scores highest. The rows of the batch are sorted by
 * expert, so that an expert's weights are read once for all tokens that chose it; a row's result does not depend on the
 * others. A token's sum over its experts is in the router's order: share 0 x output 0, + share 1 x output 1, …, each
 * product and sum rounded, then + the shared expert's, which may have a factor of its own. With scaled_input a share
 * multiplies the expert's input, and the sum is of the outputs as they are.
 */
#include "daemon/backend/cpu/cpu.h"
#include "daemon/backend/cpu/route.h"
#include <string.h>

static void choose_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    const struct hparams *y = &p->c->base.hparams;
    const struct scratch *s = &p->c->scratch;
    for (size_t i = begin; i < end; i++) {
        float *scores = s->moe.route + i * y->experts.n;
        if (p->w->router.bias) p->c->kern->add(scores, p->w->router.bias, y->experts.n);
        route(&y->experts, scores, p->w->choice_bias, s->moe.chosen + i * y->experts.used,
              s->moe.share + i * y->experts.used);
    }
}

/* Number the rows by expert, and within one by token. Returns the number of groups. */
static uint32_t group_rows(const struct pass *p)
{
    const struct hparams *y = &p->c->base.hparams;
    const struct scratch *s = &p->c->scratch;
    uint32_t rows = p->n * y->experts.used, at = 0, n = 0;
    for (uint32_t e = 0; e < y->experts.n; e++) s->moe.groups[e] = (struct group){.at = e};
    for (uint32_t i = 0; i < rows; i++) s->moe.groups[s->moe.chosen[i]].n++;
    for (uint32_t e = 0; e < y->experts.n; at += s->moe.groups[e++].n) s->moe.groups[e].first = at;
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t row = s->moe.groups[s->moe.chosen[i]].first++;
        s->moe.row[i] = row;
        s->moe.source[row] = i;
    }
    for (uint32_t e = 0; e < y->experts.n; e++) {
        struct group g = s->moe.groups[e];
        g.first -= g.n;
        s->moe.of[e] = g;
        if (g.n) s->moe.groups[n++] = g;
    }
    return n;
}

/* The rows of the expert that has row @r. */
static const struct group *group_of(const struct scratch *s, size_t r)
{
    return &s->moe.of[s->moe.chosen[s->moe.source[r]]];
}

static void gather_rows(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    const struct hparams *y = &p->c->base.hparams;
    const struct scratch *s = &p->c->scratch;
    for (size_t r = begin; r < end; r++) {
        const float *h = s->h.f + (size_t)(s->moe.source[r] / y->experts.used) * y->dim;
        float *x = s->moe.mix.f + r * y->dim;
        memcpy(x, h, y->dim * sizeof(*h));
        if (y->experts.scaled_input) p->c->kern->scale(x, s->moe.share[s->moe.source[r]], y->dim);
        cpu_quantize(p, &s->moe.mix, group_of(s, r), r, 0, x, y->dim);
    }
}

/* --- the shared expert --- */

static void quantize_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    for (size_t i = begin; i < end; i++) cpu_quantize_row(p, &p->c->scratch.h, i);
}

/* h -> h */
static void shared_expert(struct pass *p)
{
    struct scratch *s = &p->c->scratch;
    const struct product in[] = {{&p->w->shared_up, NULL}, {&p->w->shared_gate, NULL}};
    const struct product out = {&p->w->shared_down, s->h.f};
    const bool gate = p->w->shared_gate.rows > 0;
    p->quantize = cpu_quantized(in, gate ? 2 : 1);
    if (p->quantize) cpu_each(p, quantize_tokens, p->n);
    p->quantize = cpu_quantized(&out, 1);
    cpu_gated(p, in[gate].m, gate ? &p->w->shared_up : NULL, &s->h, NULL, 0);
    cpu_products(p, &out, 1, &s->gated, p->n);
}

/* --- all of them --- */

static void take_residual(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    const struct scratch *s = &p->c->scratch;
    const size_t dim = p->c->base.hparams.dim;
    for (size_t i = begin; i < end; i++) {
        memcpy(s->moe.mix.f + i * dim, s->x + i * dim, dim * sizeof(float));
        cpu_quantize_row(p, &s->moe.mix, i);
    }
}

void cpu_early_router(struct pass *p)
{
    struct scratch *s = &p->c->scratch;
    const struct product router = {&p->w->router, s->moe.route};
    p->quantize = cpu_quantized(&router, 1);
    cpu_each(p, take_residual, p->n);
    cpu_products(p, &router, 1, &s->moe.mix, p->n);
}

static void add_experts(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    const struct hparams *y = &p->c->base.hparams;
    const struct scratch *s = &p->c->scratch;
    const struct kernels *k = p->c->kern;
    for (size_t i = begin; i < end; i++) {
        const size_t first = i * y->experts.used;
        float *h = s->h.f + i * y->dim, *sum = s->moe.mix.f + (size_t)s->moe.row[first] * y->dim;
        for (uint32_t j = 0; j < y->experts.used; j++) {
            float *out = s->moe.mix.f + (size_t)s->moe.row[first + j] * y->dim;
            if (p->w->down.bias) k->add(out, p->w->down.bias + (size_t)s->moe.chosen[first + j] * y->dim, y->dim);
            if (p->w->beside.scale) k->scale(out, p->w->beside.scale[s->moe.chosen[first + j]], y->dim);
            if (!y->experts.scaled_input) k->scale(out, s->moe.share[first + j], y->dim);
            if (j) k->add(sum, out, y->dim);
        }
        if (!y->experts.shared_ffn) {
            memcpy(h, sum, y->dim * sizeof(*h));
            continue;
        }
        if (p->w->shared_router.rows) k->scale(h, 1 / (1 + kern_exp(-s->moe.shared[i])), y->dim);
        k->add(h, sum, y->dim);
    }
}

void cpu_experts(struct pass *p)
{
    struct scratch *s = &p->c->scratch;
    const struct product routers[] = {{&p->w->router, s->moe.route}, {&p->w->shared_router, s->moe.shared}};
    if (!p->c->base.hparams.desc->experts.early)
        cpu_products(p, routers, p->w->shared_router.rows ? 2 : 1, &s->h, p->n);
    cpu_chosen_experts(p);
}

void cpu_chosen_experts(struct pass *p)
{
    const struct hparams *y = &p->c->base.hparams;
    struct scratch *s = &p->c->scratch;
    const struct product in[] = {{&p->w->up, NULL}, {&p->w->gate, NULL}}, out = {&p->w->down, s->moe.mix.f};
    const bool gate = p->w->gate.rows > 0;
    const uint32_t rows = p->n * y->experts.used;
    cpu_each(p, choose_tokens, p->n);
    uint32_t groups = group_rows(p);
    p->quantize = cpu_quantized(in, gate ? 2 : 1);
    cpu_each(p, gather_rows, rows);
    p->quantize = cpu_quantized(&out, 1);
    cpu_gated(p, in[gate].m, gate ? &p->w->up : NULL, &s->moe.mix, s->moe.groups, groups);
    cpu_group_products(p, &out, 1, &s->gated, s->moe.groups, groups);
    if (y->experts.shared_ffn) shared_expert(p);
    cpu_each(p, add_experts, p->n);
}

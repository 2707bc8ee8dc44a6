/* SPDX-License-Identifier: MIT */
/* A mixture of experts, one expert after the other over all tokens, weighted by its share of each. */
#include "daemon/reference/reference-pass.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <math.h>
#include <string.h>

/* Replace a token's scores by the shares of its experts; the share of an expert that is not chosen is 0. */
static void choose(const struct hparams *s, float *row)
{
    double total = 0, chosen = 0, share[HPARAMS_EXPERTS_MAX] = {0}, max = -INFINITY;
    for (uint32_t e = 0; e < s->experts.n; e++) max = fmax(max, row[e]);
    for (uint32_t e = 0; e < s->experts.n; e++) total += exp(row[e] - max);
    for (uint32_t i = 0; i < s->experts.used; i++) {
        uint32_t best = 0;
        for (uint32_t e = 1; e < s->experts.n; e++)
            if (row[e] > row[best]) best = e;
        chosen += share[best] = exp(row[best] - max);
        row[best] = -INFINITY;
    }
    for (uint32_t e = 0; e < s->experts.n; e++)
        row[e] = (float)(share[e] / (s->experts.of_all ? total : chosen) * s->experts.scale);
}

/* One expert of @width, h -> out: number @at of the stacked tensors @names. */
static int one(struct pass *p, float *out, const char *const names[3], uint32_t at, uint32_t width)
{
    const struct hparams *s = &p->r->s;
    int e = reference_product(p, p->gate, p->h, names[0], (uint64_t)at * width, width, at);
    if (!e) e = reference_product(p, p->up, p->h, names[1], (uint64_t)at * width, width, at);
    if (e) return e;
    reference_activate(s, p->gate, p->up, (size_t)p->n * width);
    return reference_product(p, out, p->gate, names[2], (uint64_t)at * s->dim, s->dim, at);
}

/* sum += share * out for each token, the shares @stride apart. */
static void add_share(const struct pass *p, float *sum, const float *out, const float *share, size_t stride)
{
    const size_t dim = p->r->s.dim;
    for (size_t i = 0; i < p->n; i++)
        for (size_t d = 0; share[i * stride] != 0 && d < dim; d++)
            sum[i * dim + d] += share[i * stride] * out[i * dim + d];
}

static int shared(struct pass *p, float *sum, float *out, float *share)
{
    static const char *const names[] = {"ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"};
    int e = reference_product(p, share, p->h, "ffn_gate_inp_shexp", 0, 1, 0);
    for (uint32_t i = 0; i < p->n; i++) share[i] = (float)(1 / (1 + exp(-(double)share[i])));
    if (!e) e = one(p, out, names, 0, p->r->s.experts.shared_ffn);
    if (!e) add_share(p, sum, out, share, 1);
    return e;
}

int reference_experts(struct pass *p)
{
    static const char *const names[] = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"};
    const struct hparams *s = &p->r->s;
    const size_t all = (size_t)p->n * s->dim;
    _cleanup_(freep) float *sum = calloc(all, sizeof(*sum)), *out = malloc(all * sizeof(*out));
    _cleanup_(freep) float *share = malloc((size_t)p->n * s->experts.n * sizeof(*share));
    if (!sum || !out || !share) return error_origin(-ENOMEM);
    int e = reference_product(p, share, p->h, "ffn_gate_inp", 0, s->experts.n, 0);
    for (uint32_t i = 0; !e && i < p->n; i++) choose(s, share + (size_t)i * s->experts.n);
    for (uint32_t x = 0; !e && x < s->experts.n; x++) {
        bool chosen = false;
        for (size_t i = 0; i < p->n; i++) chosen |= share[i * s->experts.n + x] != 0;
        if (chosen) e = one(p, out, names, x, s->experts.ffn);
        if (!e && chosen) add_share(p, sum, out, share + x, s->experts.n);
    }
    if (!e && s->experts.shared_ffn) e = shared(p, sum, out, share);
    if (!e) memcpy(p->h, sum, all * sizeof(*sum));
    return e;
}

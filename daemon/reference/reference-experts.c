/* SPDX-License-Identifier: MIT */
/* A mixture of experts, one expert after the other over all tokens, weighted by its share of each. */
#include "daemon/reference/reference-pass.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <math.h>
#include <string.h>

/* The sum of the two largest values of a group of @size experts. */
static double worth(const double *value, uint32_t size)
{
    double best = -INFINITY, second = -INFINITY;
    for (uint32_t e = 0; e < size; e++) {
        if (value[e] > best)
            second = best, best = value[e];
        else if (value[e] > second)
            second = value[e];
    }
    return size > 1 ? best + second : best;
}

/* Exclude the experts of all groups but the best. */
static void keep_groups(const struct hparams_experts *x, double *value)
{
    const uint32_t size = x->n / x->groups;
    for (uint32_t left = x->groups; left > x->groups_used; left--) {
        uint32_t worst = UINT32_MAX;
        double least = INFINITY;
        for (uint32_t g = 0; g < x->groups; g++) {
            const double sum = worth(value + (size_t)g * size, size);
            if (value[(size_t)g * size] != -INFINITY && sum <= least) worst = g, least = sum;
        }
        for (uint32_t e = 0; worst < x->groups && e < size; e++) value[(size_t)worst * size + e] = -INFINITY;
    }
}

/* Replace a token's scores by the shares of its experts; the share of an expert that is not chosen is 0. @bias of the
 * choice, or NULL. */
static void choose(const struct hparams_experts *x, float *row, const float *bias)
{
    double p[HPARAMS_EXPERTS_MAX], value[HPARAMS_EXPERTS_MAX], share[HPARAMS_EXPERTS_MAX] = {0};
    double total = 0, chosen = 0, max = -INFINITY;
    for (uint32_t e = 0; e < x->n; e++) max = fmax(max, row[e]);
    for (uint32_t e = 0; e < x->n; e++) total += exp(row[e] - max);
    for (uint32_t e = 0; e < x->n; e++) {
        p[e] = x->sigmoid ? 1 / (1 + exp(-(double)row[e])) : exp(row[e] - max) / total;
        value[e] = x->scaled_input ? row[e] : p[e] + (bias ? bias[e] : 0);
    }
    keep_groups(x, value);
    for (uint32_t i = 0; i < x->used; i++) {
        uint32_t best = 0;
        for (uint32_t e = 1; e < x->n; e++)
            if (value[e] > value[best]) best = e;
        chosen += share[best] = p[best];
        value[best] = -INFINITY;
    }
    for (uint32_t e = 0; e < x->n; e++)
        row[e] = (float)(share[e] / (x->of_all ? 1 : fmax(chosen, 1.0 / 16384)) * x->scale);
}

/* One expert of @width, in -> out: number @at of the stacked tensors @names; the first two may be one. */
static int one(struct pass *p, float *out, const float *in, const char *const names[3], uint32_t at, uint32_t width)
{
    const struct hparams *s = &p->r->s;
    const bool alone = s->desc->block.no_gate; /* the activation is of up */
    const bool both = names[0] == names[1];
    const uint64_t first = (uint64_t)at * width * (both ? 2 : 1);
    int e = reference_product(p, p->gate, in, names[alone], first, width, at);
    for (size_t i = 0; alone && i < (size_t)p->n * width; i++) p->up[i] = 1;
    if (!e && !alone) e = reference_product(p, p->up, in, names[1], first + (both ? width : 0), width, at);
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
    const bool gated = p->r->s.desc->experts.shared == SHARED_GATED;
    int e = gated ? reference_product(p, share, p->h, "ffn_gate_inp_shexp", 0, 1, 0) : 0;
    for (uint32_t i = 0; i < p->n; i++) share[i] = gated ? (float)(1 / (1 + exp(-(double)share[i]))) : 1;
    if (!e) e = one(p, out, p->h, names, 0, p->r->s.experts.shared_ffn);
    if (!e) add_share(p, sum, out, share, 1);
    return e;
}

/* sum += the output of expert @x, of the tensors @names, for the tokens that chose it. @in, @out: scratch [n][dim]. */
static int add_expert(struct pass *p, float *sum, float *in, float *out, const float *share, const char *const names[3],
                      uint32_t x)
{
    const struct hparams *s = &p->r->s;
    const size_t stride = s->experts.n, dim = s->dim;
    if (!s->experts.scaled_input) {
        int e = one(p, out, p->h, names, x, s->experts.ffn);
        if (!e) add_share(p, sum, out, share + x, stride);
        return e;
    }
    for (size_t i = 0; i < p->n * dim; i++) in[i] = p->h[i] * share[i / dim * stride + x];
    int e = one(p, out, in, names, x, s->experts.ffn);
    for (size_t i = 0; !e && i < p->n * dim; i++)
        if (share[i / dim * stride + x] != 0) sum[i] += out[i];
    return e;
}

/* The router's scores. In a model with a feed-forward beside the experts it has an input of its own. */
static int scores(struct pass *p, float *out)
{
    const struct hparams *s = &p->r->s;
    const size_t dim = s->dim;
    if (!s->desc->experts.beside) return reference_product(p, out, p->h, "ffn_gate_inp", 0, s->experts.n, 0);
    _cleanup_(freep) float *w = NULL, *in = malloc(p->n * dim * sizeof(*in));
    int e = in ? reference_vectors(p, &w, "ffn_gate_inp.scale") : error_origin(-ENOMEM);
    if (!e) reference_norm_by(s, in, p->x, p->n, dim, NULL);
    for (size_t i = 0; !e && i < p->n * dim; i++) in[i] = (float)(in[i] / sqrt((double)dim) * w[i % dim]);
    return e ? e : reference_product(p, out, in, "ffn_gate_inp", 0, s->experts.n, 0);
}

/* The factors of the experts' outputs, where the file has them. */
static int scale_shares(struct pass *p, float *share)
{
    _cleanup_(freep) float *scale = NULL;
    const size_t n = p->r->s.experts.n;
    int e = reference_vector(p, &scale, "ffn_down_exps.scale", 0);
    for (size_t i = 0; !e && scale && i < p->n * n; i++) share[i] *= scale[i % n];
    return e;
}

int reference_experts_beside(struct pass *p, int (*ordinary)(struct pass *p))
{
    const struct hparams *s = &p->r->s;
    const size_t all = (size_t)p->n * s->dim;
    _cleanup_(freep) float *first = malloc(all * sizeof(*first));
    int e = first ? ordinary(p) : error_origin(-ENOMEM);
    if (!e) e = reference_norm(p, first, p->h, p->n, s->dim, "post_ffw_norm_1");
    if (!e) e = reference_norm(p, p->h, p->x, p->n, s->dim, "pre_ffw_norm_2");
    if (!e) e = reference_experts(p);
    if (!e) e = reference_norm(p, p->h, p->h, p->n, s->dim, "post_ffw_norm_2");
    for (size_t i = 0; !e && i < all; i++) p->h[i] += first[i];
    return e;
}

int reference_experts(struct pass *p)
{
    const char *names[] = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"};
    char name[64];
    snprintf(name, sizeof(name), "blk.%u.ffn_gate_up_exps.weight", p->layer);
    if (gguf_find_tensor(p->r->g, name)) names[0] = names[1] = "ffn_gate_up_exps";
    const struct hparams *s = &p->r->s;
    const size_t all = (size_t)p->n * s->dim;
    _cleanup_(freep) float *sum = calloc(all, sizeof(*sum)), *out = malloc(2 * all * sizeof(*out));
    _cleanup_(freep) float *share = malloc((size_t)p->n * s->experts.n * sizeof(*share));
    _cleanup_(freep) float *bias = NULL;
    if (!sum || !out || !share) return error_origin(-ENOMEM);
    int e = reference_vector(p, &bias, "exp_probs_b.bias", 0);
    if (!e && s->desc->experts.early)
        memcpy(share, p->route, (size_t)p->n * s->experts.n * sizeof(*share));
    else if (!e)
        e = scores(p, share);
    for (uint32_t i = 0; !e && i < p->n; i++) choose(&s->experts, share + (size_t)i * s->experts.n, bias);
    if (!e && s->desc->experts.beside) e = scale_shares(p, share);
    for (uint32_t x = 0; !e && x < s->experts.n; x++) {
        bool chosen = false;
        for (size_t i = 0; i < p->n; i++) chosen |= share[i * s->experts.n + x] != 0;
        if (chosen) e = add_expert(p, sum, out + all, out, share, names, x);
    }
    if (!e && s->experts.shared_ffn) e = shared(p, sum, out, share);
    if (!e) memcpy(p->h, sum, all * sizeof(*sum));
    return e;
}

/* SPDX-License-Identifier: MIT */
/* Norms, and what joins the residual stream before them. Usual models have kernels that are fast (cuda_norm; for one
 * token it is a part of the product behind it); cuda_norm_any has the rest, which only some architectures need. */
#include "daemon/backend/cuda/cuda.h"

#define THREADS 256

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Bytes of shared memory for a row of @k values, and for what joins it. */
static unsigned row_bytes(uint32_t k, bool joins)
{
    return ((joins ? 2 : 1) * k + 1) * (unsigned)sizeof(float);
}

int cuda_find_norms(struct cuda *c)
{
    const struct hparams *s = &c->host->base.hparams;
    const uint32_t widest = most((uint32_t)hparams_queries(s), s->desc->block.sub_norms ? s->ffn : 0);
    int r = cuda_kernel(&c->device, &c->kern.norm, "cuda_norm", row_bytes(most(s->dim, s->mla.q_rank), true));
    if (cuda_usual_norms(s) && !s->desc->block.sub_norms && s->desc->qk_norm != QK_NORM_WHOLE) return r;
    return r ? r
             : cuda_kernel(&c->device, &c->kern.norm_any, "cuda_norm_any",
                           most(row_bytes(s->dim, true), row_bytes(widest, false)));
}

/* --- joins and norms of the residual stream --- */

int cuda_start_norm(const struct cuda *c, uint32_t n, const struct cuda_norm *a)
{
    /* many threads shorten a row; of many rows, more are computed at once with few */
    const bool few = a->k < 4 * THREADS || n > 4 * (uint32_t)c->device.processors;
    const struct cuda_grid g = {n, 1, few ? THREADS : 4 * THREADS, (2 * a->k + 1) * (unsigned)sizeof(float)};
    return cuda_launch(&c->device, c->kern.norm, g, a);
}

bool cuda_usual_norms(const struct hparams *s)
{
    const struct arch_block *b = &s->desc->block;
    return !b->layer_norm && b->norm_bias == ARCH_NEVER && !s->parallel && !s->desc->encoder.outer_norms &&
           !s->altup.streams;
}

static int start(const struct cuda *c, uint32_t rows, const struct cuda_norm_any *a)
{
    const uint32_t k = a->n.k, threads = k < THREADS ? cuda_divide(k, CUDA_WARP) * CUDA_WARP : THREADS;
    return cuda_launch(&c->device, c->kern.norm_any, (struct cuda_grid){rows, 1, threads, row_bytes(k, a->n.h)}, a);
}

/* cuda_join of other models. */
static int join_any(const struct cuda_pass *p, const struct cuda_norm_by *by, const struct cuda_norm *a)
{
    const struct cuda *c = p->c;
    const struct arch *desc = c->host->base.hparams.desc;
    const bool beside = p->pending && p->beside;
    const struct cuda_norm_any any = {.n = *a,
                                      .w_bias = cuda_weight(c, by->bias),
                                      .beside = beside ? c->buf.beside : NULL,
                                      .beside_bias = beside ? cuda_weight(c, p->beside_bias) : NULL,
                                      .side = p->pending && p->laurel ? c->buf.altup.side : NULL,
                                      .second = cuda_weight(c, by->second),
                                      .second_bias = cuda_weight(c, by->second_bias),
                                      .each = 1,
                                      .layer = desc->block.layer_norm,
                                      .outer = desc->encoder.outer_norms && p->pending && by->w};
    return start(c, p->n, &any);
}

struct cuda_norm cuda_join_of(const struct cuda_pass *p, const struct cuda_norm_by *by)
{
    const struct cuda *c = p->c;
    return (struct cuda_norm){.x = p->x,
                              .h = p->pending ? c->buf.h : NULL,
                              .bias = p->pending ? cuda_weight(c, p->bias) : NULL,
                              .post = cuda_weight(c, p->post),
                              .out_scale = cuda_weight(c, p->out_scale),
                              .w = cuda_weight(c, by->w),
                              .eps = c->host->base.hparams.rms_eps,
                              .residual = c->host->base.hparams.scale.residual,
                              .k = c->host->base.hparams.dim};
}

int cuda_join(struct cuda_pass *p, const struct cuda_norm_by *by, const struct cuda_norm *a)
{
    const bool usual = cuda_usual_norms(&p->c->host->base.hparams);
    int r = usual ? cuda_start_norm(p->c, p->n, a) : join_any(p, by, a);
    p->pending = p->beside = p->laurel = false;
    return r;
}

/* --- norms of heads, and within a block --- */

bool cuda_norms_heads(const struct cuda_pass *p)
{
    const struct arch *desc = p->c->host->base.hparams.desc;
    return p->cpu.w->q_norm && (desc->qk_norm == QK_NORM_WHOLE || desc->block.layer_norm);
}

/* Of the @heads heads of each token in @x. */
static int norm_some(const struct cuda_pass *p, float *x, uint32_t heads, const float *w, const float *w_bias,
                     const float *bias)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    const bool whole = s->desc->qk_norm == QK_NORM_WHOLE;
    const uint32_t dim = p->cpu.heads.head_dim;
    struct cuda_norm_any a = {.n = {.x = x, .bias = cuda_weight(c, bias), .w = cuda_weight(c, w), .f = x},
                              .w_bias = cuda_weight(c, w_bias),
                              .each = whole ? 1 : heads,
                              .layer = s->desc->block.layer_norm};
    a.n.eps = s->rms_eps;
    a.n.residual = 1;
    a.n.k = whole ? heads * dim : dim;
    return start(c, whole ? p->n : p->n * heads, &a);
}

int cuda_norm_heads(const struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct layer *w = p->cpu.w;
    int r = norm_some(p, c->buf.q, c->host->base.hparams.heads, w->q_norm, w->encoder.q_norm_bias, w->q.bias);
    return r || !p->cpu.own_kv
               ? r
               : norm_some(p, c->buf.k, p->cpu.heads.kv_heads, w->k_norm, w->encoder.k_norm_bias, w->k.bias);
}

int cuda_sub_norm(const struct cuda_pass *p, float *x, uint32_t k, const float *w, const struct product *out,
                  const struct cuda_acts *acts)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    struct cuda_norm_any a = {.n = {.x = x, .w = cuda_weight(c, w), .eps = s->rms_eps, .residual = 1, .k = k},
                              .each = 1,
                              .layer = s->desc->block.layer_norm};
    if (cpu_quantized(out, 1)) a.n.q = cuda_acts_of(p, *acts);
    if (cuda_reads_plain(p, out, 1)) a.n.f = x;
    return start(c, p->n, &a);
}

int cuda_norm_side(const struct cuda_pass *p, float *x, float *side, const float *w)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    const struct cuda_norm_any a = {
        .n = {.x = x, .h = side, .post = cuda_weight(c, w), .f = side, .eps = s->rms_eps, .residual = 1, .k = s->dim},
        .each = 1};
    return start(c, p->n, &a);
}

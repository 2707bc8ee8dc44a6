/* SPDX-License-Identifier: MIT */
/* AltUp, LAuReL, sparse gates and the layers' embeddings of tokens, in double except for large matrix products. The
 * formulas of Gemma 3n's code in Hugging Face's transformers (modeling_gemma3n.py). */
#include "daemon/reference/reference-pass.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <math.h>
#include <string.h>

#define STREAMS_MOST 4

int reference_embed_layers(struct pass *p, const int32_t *ids)
{
    const struct hparams *s = &p->r->s;
    const size_t n = s->per_layer, all = n * s->n_layers;
    _cleanup_(freep) float *row = malloc(all * sizeof(*row)), *w = malloc(n * sizeof(*w));
    p->embedding = malloc(p->n * all * sizeof(*p->embedding));
    if (!row || !w || !p->embedding) return error_origin(-ENOMEM);
    int e = reference_shared_row(p, w, "per_layer_proj_norm.weight", 0);
    if (!e) e = reference_shared_product(p, p->embedding, p->x, "per_layer_model_proj.weight", 0, all);
    for (size_t i = 0; !e && i < p->n; i++) {
        float *out = p->embedding + i * all;
        e = reference_shared_row(p, row, "per_layer_token_embd.weight", ids[i] < 0 ? 0 : (uint64_t)ids[i]);
        for (size_t j = 0; j < all; j++) out[j] = (float)(out[j] / sqrt(s->dim));
        reference_norm_by(s, out, out, s->n_layers, n, w);
        for (size_t j = 0; j < all; j++) out[j] = (float)((out[j] + sqrt((double)n) * row[j]) / sqrt(2));
    }
    return e;
}

int reference_layer_embedding(struct pass *p, const float *in)
{
    const struct hparams *s = &p->r->s;
    const size_t n = s->per_layer;
    _cleanup_(freep) float *gate = malloc(p->n * n * sizeof(*gate)), *own = malloc(p->n * n * sizeof(*own));
    if (!gate || !own) return error_origin(-ENOMEM);
    for (size_t i = 0; i < p->n; i++)
        memcpy(own + i * n, p->embedding + (i * s->n_layers + p->layer) * n, n * sizeof(*own));
    int e = reference_product(p, gate, in, "inp_gate", 0, n, 0);
    if (e) return e;
    reference_activate(s, gate, own, p->n * n);
    e = reference_product(p, p->h, gate, "proj", 0, s->dim, 0);
    return e ? e : reference_norm(p, p->h, p->h, p->n, s->dim, "post_norm");
}

void reference_sparsify(struct pass *p, size_t width)
{
    for (size_t i = 0; i < p->n; i++) {
        float *g = p->gate + i * width;
        double sum = 0, square = 0;
        for (size_t j = 0; j < width; j++) sum += g[j], square += (double)g[j] * g[j];
        const double mean = sum / (double)width, rest = square - sum * mean;
        const double from = mean + p->r->s.altup.sparsity * (width > 1 ? sqrt(rest / (double)(width - 1)) : 0);
        for (size_t j = 0; j < width; j++) g[j] = (float)fmax(g[j] - from, 0);
    }
}

static double magnitude(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    return sqrt(sum);
}

/* Products of @in [n][dim] with matrix @at of the stack @name -> out[n][dim], of the magnitude of like[n], whose rows
 * are @stride apart. */
static int matched(struct pass *p, float *out, const float *in, const char *name, uint32_t at, const float *like,
                   size_t stride)
{
    const size_t dim = p->r->s.dim;
    int e = reference_shared_product(p, out, in, name, (uint64_t)at * dim, dim);
    for (size_t i = 0; !e && i < p->n; i++) {
        const double own = magnitude(out + i * dim, dim), least = sqrt(1e-5 * (double)dim);
        const double by = magnitude(like + i * stride, dim) / fmax(own, least);
        for (size_t d = 0; d < dim; d++) out[i * dim + d] = (float)(out[i * dim + d] * by);
    }
    return e;
}

int reference_altup_begin(struct pass *p)
{
    const size_t dim = p->r->s.dim, n = p->r->s.altup.streams;
    p->streams = malloc(p->n * n * dim * sizeof(*p->streams));
    p->side = malloc(p->n * dim * sizeof(*p->side));
    if (!p->streams || !p->side) return error_origin(-ENOMEM);
    for (uint32_t s = 0; s < n; s++) {
        int e = s ? matched(p, p->side, p->x, "altup_proj.weight", s - 1, p->x, dim) : 0;
        if (e) return e;
        for (size_t i = 0; i < p->n; i++)
            memcpy(p->streams + (i * n + s) * dim, (s ? p->side : p->x) + i * dim, dim * sizeof(float));
    }
    return 0;
}

/* The router's answer to @x[n][dim] -> m[n][streams]. */
static int modalities(struct pass *p, const float *x, double (*m)[STREAMS_MOST])
{
    const struct hparams *s = &p->r->s;
    const size_t dim = s->dim;
    _cleanup_(freep) float *w = NULL, *normed = malloc(p->n * dim * sizeof(*normed));
    int e = normed ? reference_vectors(p, &w, "altup_router.weight") : error_origin(-ENOMEM);
    if (!e) e = reference_norm(p, normed, x, p->n, dim, "altup_router_norm");
    for (size_t i = 0; !e && i < p->n; i++)
        for (uint32_t a = 0; a < s->altup.streams; a++) {
            double sum = 0;
            for (size_t d = 0; d < dim; d++) sum += (double)w[a * dim + d] * normed[i * dim + d];
            m[i][a] = tanh(sum / (double)dim);
        }
    return e;
}

/* A product of m with a row of @n values. */
static double coefficient(const float *row, const double *m, uint32_t n)
{
    double sum = 0;
    for (uint32_t a = 0; a < n; a++) sum += row[a] * m[a];
    return sum;
}

int reference_altup_predict(struct pass *p)
{
    const size_t dim = p->r->s.dim;
    const uint32_t n = p->r->s.altup.streams;
    _cleanup_(freep) double(*m)[STREAMS_MOST] = malloc(p->n * sizeof(*m));
    _cleanup_(freep) float *w = NULL;
    int e = m ? reference_vectors(p, &w, "altup_predict_coef.weight") : error_origin(-ENOMEM);
    for (size_t i = 0; !e && i < p->n; i++) memcpy(p->x + i * dim, p->streams + i * n * dim, dim * sizeof(float));
    if (!e) e = modalities(p, p->x, m);
    for (size_t i = 0; !e && i < p->n; i++) {
        float *rows = p->streams + i * n * dim;
        for (size_t d = 0; d < dim; d++) {
            double old[STREAMS_MOST], sum;
            for (uint32_t s = 0; s < n; s++) old[s] = rows[s * dim + d];
            for (uint32_t s = 0; s < n; s++) {
                sum = old[s];
                for (uint32_t of = 0; of < n; of++) sum += old[of] * coefficient(w + (s * n + of) * n, m[i], n);
                rows[s * dim + d] = (float)sum;
            }
        }
        memcpy(p->x + i * dim, rows, dim * sizeof(float));
    }
    return e;
}

int reference_laurel(struct pass *p)
{
    const struct hparams *s = &p->r->s;
    _cleanup_(freep) float *low = malloc((size_t)p->n * s->altup.rank * sizeof(*low));
    int e = low ? reference_norm(p, p->h, p->x, p->n, s->dim, "attn_norm") : error_origin(-ENOMEM);
    if (!e) e = reference_product(p, low, p->h, "laurel_l", 0, s->altup.rank, 0);
    if (!e) e = reference_product(p, p->side, low, "laurel_r", 0, s->dim, 0);
    if (!e) e = reference_norm(p, p->side, p->side, p->n, s->dim, "laurel_post_norm");
    for (size_t i = 0; !e && i < (size_t)p->n * s->dim; i++) p->side[i] += p->h[i];
    return e;
}

void reference_laurel_add(struct pass *p)
{
    for (size_t i = 0; i < (size_t)p->n * p->r->s.dim; i++) p->x[i] = (float)(((double)p->x[i] + p->side[i]) / sqrt(2));
}

int reference_altup_correct(struct pass *p)
{
    const size_t dim = p->r->s.dim;
    const uint32_t n = p->r->s.altup.streams;
    _cleanup_(freep) double(*m)[STREAMS_MOST] = malloc(p->n * sizeof(*m));
    _cleanup_(freep) float *w = NULL, *scale = NULL;
    int e = m ? reference_vectors(p, &w, "altup_correct_coef.weight") : error_origin(-ENOMEM);
    if (!e) e = reference_vectors(p, &scale, "altup_correct_scale.weight");
    if (!e) e = modalities(p, p->x, m);
    for (size_t i = 0; !e && i < p->n; i++)
        for (size_t d = 0; d < dim; d++) {
            float *at = p->streams + i * n * dim + d;
            const double change = (double)p->x[i * dim + d] - *at;
            for (uint32_t s = 0; s < n; s++)
                at[s * dim] = (float)(at[s * dim] + change * (1 + coefficient(w + s * n, m[i], n)));
            p->x[i * dim + d] = *at * scale[d];
        }
    if (!e) e = reference_layer_embedding(p, p->x);
    for (size_t i = 0; !e && i < p->n; i++)
        for (size_t d = 0; d < dim * (n - 1); d++) p->streams[(i * n + 1) * dim + d] += p->h[i * dim + d % dim];
    return e;
}

int reference_altup_end(struct pass *p)
{
    const size_t dim = p->r->s.dim, n = p->r->s.altup.streams;
    for (size_t i = 0; i < p->n; i++) memcpy(p->x + i * dim, p->streams + i * n * dim, dim * sizeof(float));
    for (uint32_t s = 1; s < n; s++) {
        for (size_t i = 0; i < p->n; i++) memcpy(p->h + i * dim, p->streams + (i * n + s) * dim, dim * sizeof(float));
        int e = matched(p, p->side, p->h, "altup_unembd_proj.weight", s - 1, p->streams, n * dim);
        if (e) return e;
        for (size_t i = 0; i < p->n * dim; i++) p->x[i] += p->side[i];
    }
    for (size_t i = 0; i < p->n * dim; i++) p->x[i] /= (float)n;
    return 0;
}

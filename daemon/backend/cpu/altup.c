/* SPDX-License-Identifier: MIT */
/*
 * AltUp (arXiv 2301.13310) and LAuReL (arXiv 2411.07501), as Gemma 3n has them. A token has a few residual streams s_i.
 * A layer computes with the first one only. Before it, it predicts all of them; afterwards the difference of what it
 * computed, y, from what was predicted corrects all of them:
 *
 *     m(x) = tanh(R (norm(x) / dim))
 *     p_i  = s_i + sum_j c_ij s_j,       c = P m(s_0)
 *     s_i  = p_i + (y - p_0) * d_i,      d = 1 + C m(y)
 *
 * Then the layer's embedding of the token, of s_0 * scale, is added to all but the first. R, P and C are small: their
 * products are sums in double, rounded to f32; those of R have lanes (lanes.h).
 *
 * Before the first layer, the streams but the first are products of the embedded token, each with its magnitude. After
 * the last one, the mean of the first and of products of the others, with the first one's magnitude, is normed.
 */
#include "daemon/backend/cpu/cpu.h"
#include "daemon/backend/cpu/lanes.h"
#include <assert.h>
#include <math.h>
#include <string.h>

#define STREAMS_MOST  4
#define SMALLEST_MEAN 1e-5 /* of the squares of a product's values, which are then divided by their magnitude */

static uint32_t count(const struct pass *p)
{
    return p->c->base.hparams.altup.streams;
}

/* Stream @s of token @i. */
static float *stream(const struct pass *p, size_t i, size_t s)
{
    return p->c->scratch.altup.streams + (i * count(p) + s) * p->c->base.hparams.dim;
}

/* Row @n of the thread's two. */
static float *row_of(const struct pass *p, uint32_t thread, size_t n)
{
    return p->c->scratch.altup.rows + ((size_t)thread * 2 + n) * p->c->base.hparams.dim;
}

/* m(x). @row: [dim] to compute in. */
static void modalities(const struct pass *p, const float *x, float *row, float m[STREAMS_MOST])
{
    const struct hparams *y = &p->c->base.hparams;
    const struct layer_altup *w = &p->w->altup;
    cpu_norm(p, row, x, w->router_norm, NULL, y->dim);
    p->c->kern->scale(row, 1 / (float)y->dim, y->dim);
    for (uint32_t s = 0; s < count(p); s++) m[s] = (float)lanes_dot(w->router + (size_t)s * y->dim, row, y->dim);
    p->c->kern->softcap(m, 1, count(p));
}

/* A row of P or C times m: a sum in double, ascending. */
static float coefficient(const float *row, const float m[STREAMS_MOST], uint32_t n)
{
    double sum = 0;
    for (uint32_t s = 0; s < n; s++) sum += (double)row[s] * (double)m[s];
    return (float)sum;
}

/* x += y * by; @row: [n] to compute in. */
static void add_times(const struct kernels *k, float *x, const float *y, float by, float *row, size_t n)
{
    memcpy(row, y, n * sizeof(*row));
    k->scale(row, by, n);
    k->add(x, row, n);
}

/* Add the embedding of the layer before, which is in h. */
static void join_embedding(const struct pass *p, size_t i)
{
    const size_t dim = p->c->base.hparams.dim;
    float *h = p->c->scratch.h.f + i * dim;
    cpu_norm(p, h, h, p->post, NULL, dim);
    for (uint32_t s = 1; s < count(p); s++) p->c->kern->add(stream(p, i, s), h, dim);
}

static void join_embeddings(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    for (size_t i = begin; i < end; i++) join_embedding(ctx, i);
}

static void predict_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    const size_t dim = p->c->base.hparams.dim;
    const uint32_t n = count(p);
    float *mixed = p->c->scratch.altup.mixed + thread * n * dim, *row = row_of(p, thread, 0), m[STREAMS_MOST];
    for (size_t i = begin; i < end; i++) {
        if (p->pending) join_embedding(p, i);
        modalities(p, stream(p, i, 0), row, m);
        for (size_t s = 0; s < n; s++) {
            memcpy(mixed + s * dim, stream(p, i, s), dim * sizeof(*mixed));
            for (size_t of = 0; of < n; of++) {
                const float c = coefficient(p->w->altup.predict + (s * n + of) * n, m, n);
                add_times(p->c->kern, mixed + s * dim, stream(p, i, of), c, row, dim);
            }
        }
        memcpy(stream(p, i, 0), mixed, n * dim * sizeof(*mixed));
        memcpy(p->c->scratch.x + i * dim, mixed, dim * sizeof(*mixed));
    }
}

void cpu_altup_predict(struct pass *p)
{
    assert(count(p) <= STREAMS_MOST);
    cpu_each(p, predict_tokens, p->n);
    p->pending = false;
}

static void correct_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    const struct kernels *k = p->c->kern;
    const size_t dim = p->c->base.hparams.dim;
    const uint32_t n = count(p);
    float *row = row_of(p, thread, 0), *change = row_of(p, thread, 1), m[STREAMS_MOST];
    for (size_t i = begin; i < end; i++) {
        float *x = p->c->scratch.x + i * dim;
        cpu_join(p, i);
        modalities(p, x, row, m);
        memcpy(change, x, dim * sizeof(*change));
        add_times(k, change, stream(p, i, 0), -1, row, dim);
        for (size_t s = 0; s < n; s++)
            add_times(k, stream(p, i, s), change, 1 + coefficient(p->w->altup.correct + s * n, m, n), row, dim);
        k->mul(p->c->scratch.h.f + i * dim, stream(p, i, 0), p->w->altup.correct_scale, dim);
        cpu_quantize_row(p, &p->c->scratch.h, i);
    }
}

void cpu_altup_correct(struct pass *p)
{
    const struct product in = {&p->w->embedding.gate, NULL};
    p->quantize = cpu_quantized(&in, 1);
    cpu_each(p, correct_tokens, p->n);
    cpu_layer_embedding(p);
    p->pending = true;
    p->post = p->w->embedding.norm;
}

/* --- LAuReL --- */

static void quantize_low(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    for (size_t i = begin; i < end; i++) cpu_quantize_row(p, &p->c->scratch.altup.low, i);
}

static void laurel_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    const size_t dim = p->c->base.hparams.dim;
    for (size_t i = begin; i < end; i++) {
        float *side = p->c->scratch.altup.side + i * dim;
        cpu_norm(p, side, side, p->w->altup.laurel_norm, NULL, dim);
        p->c->kern->add(side, p->c->scratch.h.f + i * dim, dim);
    }
}

void cpu_laurel(struct pass *p)
{
    struct altup_scratch *s = &p->c->scratch.altup;
    const struct product out = {&p->w->altup.laurel_out, s->side};
    p->quantize = cpu_quantized(&out, 1);
    if (p->quantize) cpu_each(p, quantize_low, p->n);
    cpu_products(p, &out, 1, &s->low, p->n);
    cpu_each(p, laurel_tokens, p->n);
}

/* --- both ends --- */

/* One stream of all tokens, for cpu_run. */
struct one_stream {
    struct pass *p;
    size_t stream;
};

/* side = side * (the magnitude of @like / its own). */
static void match(const struct pass *p, float *side, const float *like)
{
    const size_t dim = p->c->base.hparams.dim;
    const float size = (float)sqrt(lanes_dot(like, like, dim));
    p->c->kern->l2norm(side, side, dim, (float)sqrt(SMALLEST_MEAN * (double)dim), size);
}

static struct matrix matrix_of(const struct matrix *stack, size_t stream)
{
    struct matrix m = *stack;
    m.panels += (stream - 1) * m.n_panels * m.panel_bytes;
    m.stacked = 1;
    return m;
}

static void begin_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct one_stream *e = ctx;
    const struct scratch *s = &e->p->c->scratch;
    const size_t dim = e->p->c->base.hparams.dim;
    for (size_t i = begin; i < end; i++) {
        float *side = s->altup.side + i * dim;
        if (e->stream == 1) memcpy(stream(e->p, i, 0), s->x + i * dim, dim * sizeof(float));
        match(e->p, side, s->x + i * dim);
        memcpy(stream(e->p, i, e->stream), side, dim * sizeof(float));
    }
}

void cpu_altup_begin(struct pass *p)
{
    struct one_stream e = {p, 1};
    p->norm = NULL;
    p->quantize = cpu_quantized(&(struct product){&p->c->weights.altup_in, NULL}, 1);
    cpu_norm_each(p); /* a copy of x */
    for (; e.stream < count(p); e.stream++) {
        const struct matrix m = matrix_of(&p->c->weights.altup_in, e.stream);
        cpu_products(p, &(struct product){&m, p->c->scratch.altup.side}, 1, &p->c->scratch.h, p->n);
        cpu_run(p, TIMING_VECTOR, begin_tokens, &e, p->n, 1, 1);
    }
}

static void copy_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct one_stream *e = ctx;
    const struct scratch *s = &e->p->c->scratch;
    const size_t dim = e->p->c->base.hparams.dim;
    for (size_t i = begin; i < end; i++) {
        memcpy(s->h.f + i * dim, stream(e->p, i, e->stream), dim * sizeof(float));
        cpu_quantize_row(e->p, &s->h, i);
    }
}

static void end_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct one_stream *e = ctx;
    const struct scratch *s = &e->p->c->scratch;
    const struct kernels *k = e->p->c->kern;
    const size_t dim = e->p->c->base.hparams.dim, n = count(e->p);
    for (size_t i = begin; i < end; i++) {
        float *x = s->x + i * dim, *side = s->altup.side + i * dim;
        if (e->stream == 1) memcpy(x, stream(e->p, i, 0), dim * sizeof(*x));
        match(e->p, side, stream(e->p, i, 0));
        k->add(x, side, dim);
        if (e->stream == n - 1) k->scale(x, 1 / (float)n, dim);
    }
}

void cpu_altup_end(struct pass *p)
{
    struct one_stream e = {p, 1};
    cpu_each(p, join_embeddings, p->n);
    p->quantize = cpu_quantized(&(struct product){&p->c->weights.altup_out, NULL}, 1);
    for (; e.stream < count(p); e.stream++) {
        const struct matrix m = matrix_of(&p->c->weights.altup_out, e.stream);
        cpu_run(p, TIMING_VECTOR, copy_tokens, &e, p->n, 1, 1);
        cpu_products(p, &(struct product){&m, p->c->scratch.altup.side}, 1, &p->c->scratch.h, p->n);
        cpu_run(p, TIMING_VECTOR, end_tokens, &e, p->n, 1, 1);
    }
}

/* SPDX-License-Identifier: MIT */
/* What follows pooling: a classifier's scores, or projections of the vector (struct weights_head). */
#include "daemon/backend/cpu/cpu.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

#define ROWS_MOST 64 /* texts at once */

/* Some texts: p->n of them. */
struct heading {
    struct pass p;
    struct acts in; /* [n][widest] the input of a product */
    float *a, *b;   /* [n][widest] */
    size_t widest;  /* values of a row that a product reads or writes */
};

static size_t widest(const struct cpu *c)
{
    const struct hparams *s = &c->base.hparams;
    size_t most = s->dim > s->embedding.labels ? s->dim : s->embedding.labels;
    return most > c->weights.head.project[0].rows ? most : c->weights.head.project[0].rows;
}

/* The buffers, in one allocation: the caller frees h->in.f. */
static int allocate(struct heading *h, size_t n)
{
    const size_t values = n * ((h->widest + KERN_BLOCK - 1) / KERN_BLOCK * KERN_BLOCK), blocks = values / KERN_BLOCK;
    float *f = malloc(values * (3 * sizeof(float) + 1) + blocks * 2 * (sizeof(float) + sizeof(int16_t)));
    if (!f) return error_say(-ENOMEM, "out of memory for the scores of %zu texts", n);
    h->a = f + values;
    h->b = h->a + values;
    h->in = (struct acts){.f = f, .d = h->b + values};
    h->in.s = (int16_t *)(h->in.d + 2 * blocks);
    h->in.q = (int8_t *)(h->in.s + 2 * blocks);
    return 0;
}

/* @in [n][k of m] -> out[n][rows], with the bias. */
static void multiply(struct heading *h, const struct matrix *m, const float *in, float *out)
{
    struct pass *p = &h->p;
    const struct product y = {m, out};
    h->in.k = m->k;
    p->quantize = cpu_quantized(&y, 1);
    memcpy(h->in.f, in, (size_t)p->n * m->k * sizeof(*in));
    for (size_t i = 0; i < p->n; i++) cpu_quantize_row(p, &h->in, i);
    cpu_products(p, &y, 1, &h->in, p->n);
    for (size_t i = 0; m->bias && i < p->n; i++) p->c->kern->add(out + i * m->rows, m->bias, m->rows);
}

/* Scores become probabilities. */
static void softmax(float *s, uint32_t n)
{
    float top = s[0];
    double sum = 0;
    for (uint32_t i = 1; i < n; i++) top = s[i] > top ? s[i] : top;
    for (uint32_t i = 0; i < n; i++) sum += (double)(s[i] = kern_exp(s[i] - top));
    for (uint32_t i = 0; i < n; i++) s[i] = (float)((double)s[i] / sum);
}

/* The activation behind the first product, of @n values, and the norm behind that. */
static void activate(const struct pass *p, float *x, uint32_t n)
{
    const float *norm = p->c->weights.head.norm;
    if (p->c->base.hparams.embedding.of_mean)
        p->c->kern->gelu_erf(x, NULL, n);
    else
        p->c->kern->softcap(x, 1, n); /* tanh */
    if (norm) cpu_norm(p, x, x, norm, NULL, n);
}

/* h->a, pooled rows -> out[n][labels]. */
static void score(struct heading *h, float *out)
{
    const struct weights_head *w = &h->p.c->weights.head;
    const struct hparams *s = &h->p.c->base.hparams;
    if (w->dense.rows) {
        float *to = w->out.rows ? h->b : out;
        multiply(h, &w->dense, h->a, to);
        for (size_t i = 0; i < h->p.n; i++) activate(&h->p, to + i * w->dense.rows, w->dense.rows);
    }
    if (w->out.rows) multiply(h, &w->out, w->dense.rows ? h->b : h->a, out);
    for (size_t i = 0; s->desc->rank_softmax && i < h->p.n; i++)
        softmax(out + i * s->embedding.labels, s->embedding.labels);
}

/* h->a, pooled rows -> out[n][dim]. */
static void project(struct heading *h, float *out)
{
    const struct matrix *m = h->p.c->weights.head.project;
    if (m->rows) {
        multiply(h, &m[0], h->a, h->b);
        multiply(h, &m[1], h->b, h->a);
    }
    memcpy(out, h->a, (size_t)h->p.n * h->p.c->base.hparams.dim * sizeof(*out));
}

int cpu_head(struct backend *b, enum pooling kind, const float *rows, size_t n, float *out)
{
    struct cpu *c = (struct cpu *)b;
    const struct weights_head *w = &c->weights.head;
    const uint32_t values = hparams_outputs(&b->hparams, kind), dim = b->hparams.dim;
    struct heading h = {.p = {.c = c}, .widest = widest(c)};
    if (kind == POOLING_RANK && !w->dense.rows && !w->out.rows)
        return error_say(-EOPNOTSUPP, "this '%s' model has no classifier, which ranks", b->hparams.arch);
    int r = allocate(&h, n < ROWS_MOST ? n : ROWS_MOST);
    for (size_t i = 0; !r && i < n; i += h.p.n) {
        h.p.n = n - i < ROWS_MOST ? (uint32_t)(n - i) : ROWS_MOST;
        memcpy(h.a, rows + i * dim, (size_t)h.p.n * dim * sizeof(*h.a));
        kind == POOLING_RANK ? score(&h, out + i * values) : project(&h, out + i * values);
    }
    free(h.in.f);
    return r;
}

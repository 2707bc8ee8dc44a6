/* SPDX-License-Identifier: MIT */
/* The two ends of the transformer: from pixels to rows, and from rows to embeddings. */
#include "daemon/encoder/encoding-state.h"
#include <string.h>

struct slice {
    struct encoding *x;
    uint32_t at, n; /* rows, or items */
};

/* --- from pixels to rows --- */

/* The values of a patch: [3][patch][patch]. */
static void take_patch(const struct encoding *x, uint32_t patch, float *out)
{
    const struct encoder_hparams *p = &x->e->p;
    const uint32_t side = encoder_side(p), first = x->view == VIEW_TILES ? x->tile : 0;
    const uint32_t columns = x->plan.columns ? x->plan.columns : 1;
    const uint32_t left = first % columns * p->image + patch % side * p->patch;
    const uint32_t top = first / columns * p->image + patch / side * p->patch;
    for (uint32_t c = 0; c < 3; c++)
        for (uint32_t i = 0; i < p->patch; i++) {
            const uint8_t *pixel =
                x->views[x->view].image + ((size_t)(top + i) * x->views[x->view].edge_x + left) * 3 + c;
            for (uint32_t j = 0; j < p->patch; j++)
                *out++ = ((float)pixel[(size_t)j * 3] / 255.0f - p->mean[c]) / p->std[c];
        }
}

/* The row of the class, and the first one of the patches. */
static uint32_t class_row(const struct encoding *x)
{
    return !x->e->w.class ? UINT32_MAX : x->e->p.class_last ? x->rows - 1 : 0;
}

static uint32_t first_patch(const struct encoding *x)
{
    return x->e->w.class && !x->e->p.class_last ? 1 : 0;
}

/* The class has a black patch, whose product is not used. */
static void take_patches(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct slice *s = ctx;
    const uint32_t k = s->x->e->w.patch.k;
    for (uint32_t i = begin; i < end; i++) {
        float *out = s->x->scratch.mid + (size_t)i * k;
        if (s->at + i == class_row(s->x))
            memset(out, 0, k * sizeof(*out));
        else
            take_patch(s->x, s->at + i - first_patch(s->x), out);
    }
}

static void place_rows(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct slice *s = ctx;
    const struct encoder *e = s->x->e;
    const size_t dim = e->p.dim;
    for (size_t i = begin; i < end; i++) {
        float *row = s->x->hidden + (s->at + i) * dim;
        if (s->at + i == class_row(s->x)) memcpy(row, e->w.class, dim * sizeof(*row));
        e->kern->add(row, e->w.positions + (s->at + i) * dim, dim);
        if (e->w.pre.w) encoding_layer_norm(row, row, &e->w.pre, (uint32_t)dim, e->p.eps);
    }
}

void encoding_patches(struct encoding *x, struct compute_pool *pool, uint32_t at, uint32_t n)
{
    struct slice s = {x, at, n};
    encoding_run(pool, take_patches, &s, n, 1);
    encoding_multiply(x, pool, &x->e->w.patch, x->scratch.mid, n, x->hidden + (size_t)at * x->e->p.dim, x->e->p.dim);
    encoding_run(pool, place_rows, &s, n, 1);
}

/* --- from rows to embeddings --- */

/* Row @row after the last norm, to @out or as it is. */
static const float *last_norm(const struct encoding *x, uint32_t row, float *out)
{
    const struct encoder *e = x->e;
    const float *in = x->hidden + (size_t)row * e->p.dim;
    if (!e->w.post.w) return in;
    encoding_layer_norm(out, in, &e->w.post, e->p.dim, e->p.eps);
    return out;
}

/* The mean of a square of rows, to @out; @one: room for a row. */
static void pool_square(const struct encoding *x, uint32_t item, float *out, float *one)
{
    const struct encoder_hparams *p = &x->e->p;
    const uint32_t side = encoder_side(p), across = side / p->pool;
    const uint32_t left = item % across * p->pool, top = item / across * p->pool;
    memset(out, 0, p->dim * sizeof(*out));
    for (uint32_t i = 0; i < p->pool; i++)
        for (uint32_t j = 0; j < p->pool; j++)
            x->e->kern->add(out, last_norm(x, (top + i) * side + left + j, one), p->dim);
    for (uint32_t i = 0; i < p->dim; i++) out[i] /= (float)(p->pool * p->pool);
}

/* The rows of a square side by side, to @out. */
static void shuffle_square(const struct encoding *x, uint32_t item, float *out)
{
    const struct encoder_hparams *p = &x->e->p;
    const uint32_t side = encoder_side(p), across = side / p->pool;
    const uint32_t left = item % across * p->pool, top = item / across * p->pool;
    for (uint32_t i = 0; i < p->pool; i++)
        for (uint32_t j = 0; j < p->pool; j++, out += p->dim) {
            const float *row = last_norm(x, (top + i) * side + left + j, out);
            if (row != out) memcpy(out, row, p->dim * sizeof(*out));
        }
}

static void pool_rows(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct slice *s = ctx;
    const struct encoder *e = s->x->e;
    const size_t dim = e->p.dim;
    for (uint32_t i = begin; i < end; i++) {
        float *out = s->x->scratch.in + i * (size_t)e->w.project.k;
        if (e->p.kind == ENCODER_IDEFICS3) {
            shuffle_square(s->x, s->at + i, out);
        } else if (e->p.kind == ENCODER_GEMMA3) {
            pool_square(s->x, s->at + i, out, s->x->scratch.mid + i * dim);
            e->kern->rmsnorm(out, out, e->w.pooled_norm, dim, e->p.eps);
        } else {
            const float *row = last_norm(s->x, s->at + i + (e->w.class ? 1 : 0), out);
            if (row != out) memcpy(out, row, dim * sizeof(*out));
        }
    }
}

static void activate(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct slice *s = ctx;
    const size_t n = s->x->e->w.project.rows;
    for (size_t i = begin; i < end; i++)
        encoding_activate(s->x->e->kern, ENCODER_GELU, s->x->scratch.mid + i * n, s->x->scratch.ones, (uint32_t)n);
}

void encoding_project(struct encoding *x, struct compute_pool *pool, uint32_t at, uint32_t n)
{
    struct slice s = {x, at, n};
    const struct encoder_weights *w = &x->e->w;
    const size_t dim = x->e->p.dim_out;
    float *out = x->result + ((size_t)x->tile * encoder_items(&x->e->p) + at) * dim;
    encoding_run(pool, pool_rows, &s, n, 1);
    if (x->e->p.kind != ENCODER_MLP) {
        encoding_multiply(x, pool, &w->project, x->scratch.in, n, out, dim);
        return;
    }
    encoding_multiply(x, pool, &w->project, x->scratch.in, n, x->scratch.mid, w->project.rows);
    encoding_run(pool, activate, &s, n, 1);
    if (w->then.panels)
        encoding_multiply(x, pool, &w->then, x->scratch.mid, n, out, dim);
    else
        memcpy(out, x->scratch.mid, n * dim * sizeof(*out));
}

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
    const struct encoding_tile *t = &x->now;
    const uint32_t left = t->left + patch % t->columns * p->patch, top = t->top + patch / t->columns * p->patch;
    for (uint32_t c = 0; c < 3; c++)
        for (uint32_t i = 0; i < p->patch; i++) {
            const uint8_t *pixel = t->view->image + ((size_t)(top + i) * t->view->edge_x + left) * 3 + c;
            for (uint32_t j = 0; j < p->patch; j++)
                *out++ = ((float)pixel[(size_t)j * 3] / 255.0f - p->mean[c]) / p->std[c];
        }
}

/* The class has a black patch, whose product is not used. */
static void take_patches(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct slice *s = ctx;
    const uint32_t k = s->x->e->w.patch.k;
    for (uint32_t i = begin; i < end; i++) {
        float *out = s->x->scratch.mid + (size_t)i * k;
        if (s->at + i == encoding_class_row(s->x))
            memset(out, 0, k * sizeof(*out));
        else
            take_patch(s->x, encoding_patch_at(s->x, s->at + i), out);
    }
}

static void place_rows(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct slice *s = ctx;
    const struct encoder *e = s->x->e;
    const size_t dim = e->p.dim;
    for (size_t i = begin; i < end; i++) {
        float *row = s->x->hidden + (s->at + i) * dim;
        const uint32_t at = s->at + (uint32_t)i;
        if (at == encoding_class_row(s->x)) {
            memcpy(row, e->w.class, dim * sizeof(*row));
            e->kern->add(row, e->w.positions + at * dim, dim);
        } else if (e->w.positions) {
            encoding_add_position(s->x, encoding_patch_at(s->x, at), row, s->x->scratch.in + i * dim);
        }
        if (e->w.pre.w) encoding_norm(e->kern, row, row, &e->w.pre, e->p.rms, e->p.eps);
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

/* Patch @patch after the last norm, to @out or as it is. */
static const float *last_norm(const struct encoding *x, uint32_t patch, float *out)
{
    const struct encoder *e = x->e;
    /* llama.cpp takes LLaVA's rows from the second one on, wherever the class is. */
    const uint32_t at = e->p.kind == ENCODER_MLP && e->w.class ? 1 + patch : encoding_row_of(x, patch);
    const float *in = x->hidden + (size_t)at * e->p.dim;
    if (!e->w.post.w) return in;
    encoding_norm(e->kern, out, in, &e->w.post, e->p.rms, e->p.eps);
    return out;
}

/* The first patch of the square that becomes @item. */
static uint32_t square_of(const struct encoding *x, uint32_t item)
{
    const uint32_t pool = x->e->p.pool, across = x->now.columns / pool;
    return item / across * pool * x->now.columns + item % across * pool;
}

/* The mean of a square of patches, to @out; @one: room for a row. */
static void pool_square(const struct encoding *x, uint32_t item, float *out, float *one)
{
    const struct encoder_hparams *p = &x->e->p;
    const uint32_t first = square_of(x, item);
    memset(out, 0, p->dim * sizeof(*out));
    for (uint32_t i = 0; i < p->pool; i++)
        for (uint32_t j = 0; j < p->pool; j++)
            x->e->kern->add(out, last_norm(x, first + i * x->now.columns + j, one), p->dim);
    for (uint32_t i = 0; i < p->dim; i++) out[i] /= (float)(p->pool * p->pool);
}

/* The rows of a square side by side, to @out. */
static void join_square(const struct encoding *x, uint32_t item, float *out)
{
    const struct encoder_hparams *p = &x->e->p;
    const uint32_t first = square_of(x, item);
    for (uint32_t i = 0; i < p->pool; i++)
        for (uint32_t j = 0; j < p->pool; j++, out += p->dim) {
            const float *row = last_norm(x, first + i * x->now.columns + j, out);
            if (row != out) memcpy(out, row, p->dim * sizeof(*out));
        }
}

/* The rows of a square, value by value, to @out; @one: room for a row. */
static void mix_square(const struct encoding *x, uint32_t item, float *out, float *one)
{
    const struct encoder *e = x->e;
    const uint32_t first = square_of(x, item), pool = e->p.pool, square = pool * pool;
    for (uint32_t i = 0; i < square; i++) {
        const float *row = last_norm(x, first + i / pool * x->now.columns + i % pool, one);
        encoding_norm(e->kern, one, row, &e->w.before, true, e->p.eps);
        for (uint32_t j = 0; j < e->p.dim; j++) out[j * square + i] = one[j];
    }
}

/* Only Gemma 3's norm takes the epsilon of the file. */
static float norm_eps(const struct encoder *e)
{
    return e->p.kind == ENCODER_GEMMA3 ? e->p.eps : 1e-5f;
}

/* The projector's input. */
static void gather(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct slice *s = ctx;
    const struct encoder *e = s->x->e;
    const struct encoder_norm *norm = &e->w.gathered;
    const size_t k = e->w.merge.panels ? e->w.merge.k : e->w.project.k;
    for (uint32_t i = begin; i < end; i++) {
        float *out = s->x->scratch.in + i * k, *one = s->x->scratch.mid + i * (size_t)e->p.dim;
        if (e->w.merge.panels)
            mix_square(s->x, s->at + i, out, one);
        else if (e->p.kind == ENCODER_GEMMA3)
            pool_square(s->x, s->at + i, out, one);
        else
            join_square(s->x, s->at + i, out);
        if (norm->w) encoding_norm(e->kern, out, out, norm, e->p.kind == ENCODER_GEMMA3, norm_eps(e));
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
    const float *in = x->scratch.in;
    float *out = x->result + ((size_t)x->now.first + at) * dim;
    encoding_run(pool, gather, &s, n, 1);
    if (w->merge.panels) {
        encoding_multiply(x, pool, &w->merge, in, n, x->scratch.out, x->e->p.dim);
        in = x->scratch.out;
    }
    if (x->e->p.kind == ENCODER_GEMMA3 || x->e->p.kind == ENCODER_IDEFICS3) {
        encoding_multiply(x, pool, &w->project, in, n, out, dim);
        return;
    }
    encoding_multiply(x, pool, &w->project, in, n, x->scratch.mid, w->project.rows);
    encoding_run(pool, activate, &s, n, 1);
    if (w->then.panels)
        encoding_multiply(x, pool, &w->then, x->scratch.mid, n, out, dim);
    else
        memcpy(out, x->scratch.mid, n * dim * sizeof(*out));
}

/* The last line moves first. */
void encoding_break_lines(struct encoding *x)
{
    const float *line_break = x->e->w.line_break;
    const uint32_t columns = x->now.columns / x->e->p.pool, lines = x->now.items / columns;
    const size_t dim = x->e->p.dim_out, line = columns * dim;
    float *first = x->result + (size_t)x->now.first * dim;
    for (uint32_t i = lines; line_break && --i > 0;) {
        float *to = first + i * (line + dim);
        memmove(to, first + i * line, line * sizeof(*to));
        memcpy(to - dim, line_break, dim * sizeof(*to));
    }
}

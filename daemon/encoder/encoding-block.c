/* SPDX-License-Identifier: MIT */
/* The blocks of the transformer. Each row of a block needs K and V of all rows, and else only itself. */
#include "daemon/encoder/encoding-state.h"
#include <math.h>
#include <string.h>

enum { QUERIES = 16, SEGMENT_BLOCKS = KV_SEGMENT / KV_BLOCK };

struct slice {
    struct encoding *x;
    const struct encoder_block *b;
    uint32_t at, n; /* rows */
};

static uint32_t min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void norm_before_kv(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct slice *s = ctx;
    const struct encoder *e = s->x->e;
    const size_t dim = e->p.dim;
    for (size_t i = begin; i < end; i++)
        encoding_norm(e->kern, s->x->scratch.in + i * dim, s->x->hidden + (s->at + i) * dim, &s->b->ln1, e->p.rms,
                      e->p.eps);
}

/* The norm of Q or K, if there is one, of the row or of each head. */
static void norm_heads(const struct encoder *e, const struct encoder_norm *norm, float *row)
{
    for (uint32_t i = 0; norm->w && i < e->p.dim; i += norm->n)
        encoding_norm(e->kern, row + i, row + i, norm, e->p.rms, e->p.eps);
}

/* Rows of Q, K, V side by side: Q is kept, K and V go to their blocks. */
static void store(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct slice *s = ctx;
    const struct encoding *x = s->x;
    const size_t dim = x->e->p.dim, head = dim / x->e->p.heads;
    for (uint32_t i = begin; i < end; i++) {
        float *row = x->scratch.out + i * 3 * dim;
        norm_heads(x->e, &s->b->q_norm, row);
        norm_heads(x->e, &s->b->k_norm, row + dim);
        if (x->turns.rows) {
            encoding_turn(x, encoding_patch_at(x, s->at + i), row);
            encoding_turn(x, encoding_patch_at(x, s->at + i), row + dim);
        }
        memcpy(x->query + (s->at + i) * dim, row, dim * sizeof(*row));
        for (uint32_t h = 0; h < x->e->p.heads; h++) {
            uint8_t *k = encoding_k(x, (s->at + i) / KV_BLOCK, h);
            x->e->kern->kv_store[KERN_KV_F32](k, k + x->kv_half, (s->at + i) % KV_BLOCK, row + dim + h * head,
                                              row + 2 * dim + h * head, head);
        }
    }
}

void encoding_kv(struct encoding *x, struct compute_pool *pool, uint32_t at, uint32_t n)
{
    struct slice s = {x, &x->e->w.blocks[x->block], at, n};
    const uint32_t dim = x->e->p.dim;
    encoding_run(pool, norm_before_kv, &s, n, 1);
    encoding_multiply(x, pool, &s.b->q, x->scratch.in, n, x->scratch.out, 3 * (size_t)dim);
    encoding_multiply(x, pool, &s.b->k, x->scratch.in, n, x->scratch.out + dim, 3 * (size_t)dim);
    encoding_multiply(x, pool, &s.b->v, x->scratch.in, n, x->scratch.out + 2 * (size_t)dim, 3 * (size_t)dim);
    encoding_run(pool, store, &s, n, 1);
}

/* Queries [first, first + n) of the slice, and the rows that one of them sees. */
struct queries {
    uint32_t first, n;
    uint32_t begin[QUERIES], end[QUERIES]; /* the rows that each sees */
    uint32_t least, most;                  /* segments */
};

static struct queries take_queries(const struct slice *s, uint32_t first, uint32_t n)
{
    const struct encoding *x = s->x;
    struct queries y = {.first = first, .n = n, .most = x->segments};
    const bool windowed = encoding_windowed(x);
    for (uint32_t i = 0; i < n; i++) {
        y.begin[i] = windowed ? x->window_begin[s->at + first + i] : 0;
        y.end[i] = windowed ? x->window_end[s->at + first + i] : x->rows;
    }
    y.least = y.begin[0] / KV_SEGMENT; /* windows are ascending */
    y.most = (y.end[n - 1] + KV_SEGMENT - 1) / KV_SEGMENT;
    return y;
}

/* What part of [begin, end) is in segment @part, relative to it. */
static void clip(const struct queries *y, uint32_t part, uint32_t rows, uint32_t *begin, uint32_t *end)
{
    const uint32_t first = part * KV_SEGMENT;
    for (uint32_t i = 0; i < y->n; i++) {
        begin[i] = y->begin[i] > first ? min(y->begin[i] - first, rows) : 0;
        end[i] = y->end[i] > first ? min(y->end[i] - first, rows) : 0;
    }
}

/* One head of some queries: all segments, then their merge to x->scratch.in. */
static void attend(const struct slice *s, uint32_t head, const struct queries *y)
{
    const struct encoding *x = s->x;
    const uint32_t dim = x->e->p.dim, width = dim / x->e->p.heads, n = y->n;
    const float *query[QUERIES];
    uint32_t begin[QUERIES], end[QUERIES];
    const void *k[SEGMENT_BLOCKS], *v[SEGMENT_BLOCKS];
    const size_t own = (size_t)head * x->segments * x->slice + y->first;
    for (uint32_t i = 0; i < n; i++) query[i] = x->query + (size_t)(s->at + y->first + i) * dim + head * width;
    for (uint32_t part = y->least; part < y->most; part++) {
        const uint32_t rows = min(KV_SEGMENT, x->rows - part * KV_SEGMENT), blocks = (rows + KV_BLOCK - 1) / KV_BLOCK;
        const size_t to = own + (size_t)(part - y->least) * x->slice;
        clip(y, part, rows, begin, end);
        for (uint32_t i = 0; i < blocks; i++) {
            k[i] = encoding_k(x, part * SEGMENT_BLOCKS + i, head);
            v[i] = (const uint8_t *)k[i] + x->kv_half;
        }
        const struct kern_attn a = {.q = query,
                                    .begin = begin,
                                    .end = end,
                                    .n_q = n,
                                    .dim = width,
                                    .k = k,
                                    .v = v,
                                    .n_blocks = blocks,
                                    .scale = 1 / sqrtf((float)width),
                                    .m = x->scratch.m + to,
                                    .l = x->scratch.l + to,
                                    .o = x->scratch.o + to * width};
        x->e->kern->attn[KERN_KV_F32](&a);
    }
    for (uint32_t i = 0; i < n; i++)
        x->e->kern->attn_merge(x->scratch.in + (size_t)(y->first + i) * dim + head * width, x->scratch.m + own + i,
                               x->scratch.l + own + i, x->slice, x->scratch.o + (own + i) * width,
                               (size_t)x->slice * width, y->most - y->least, width);
}

/* An item is some queries of one head. */
static void attention(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct slice *s = ctx;
    const uint32_t groups = (s->n + QUERIES - 1) / QUERIES;
    for (uint32_t i = begin; i < end; i++) {
        const uint32_t first = i % groups * QUERIES;
        const struct queries y = take_queries(s, first, min(QUERIES, s->n - first));
        attend(s, i / groups, &y);
    }
}

/* hidden += what attention or the FFN gave, for row @i of the slice. */
static void add_residual(const struct slice *s, size_t i, const float *scale)
{
    const size_t dim = s->x->e->p.dim;
    float *out = s->x->scratch.out + i * dim;
    for (size_t j = 0; scale && j < dim; j++) out[j] *= scale[j];
    s->x->e->kern->add(s->x->hidden + (s->at + i) * dim, out, dim);
}

/* After attention: the norm of the row is the FFN's input. */
static void norm_before_ffn(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct slice *s = ctx;
    const struct encoder *e = s->x->e;
    const size_t dim = e->p.dim;
    for (size_t i = begin; i < end; i++) {
        add_residual(s, i, s->b->scale1);
        encoding_norm(e->kern, s->x->scratch.in + i * dim, s->x->hidden + (s->at + i) * dim, &s->b->ln2, e->p.rms,
                      e->p.eps);
    }
}

static void activate(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct slice *s = ctx;
    const struct encoder *e = s->x->e;
    const struct encoding_scratch *m = &s->x->scratch;
    for (size_t i = begin; i < end; i++)
        encoding_activate(e->kern, e->p.act, m->mid + i * e->p.ffn, s->b->gate.panels ? m->up + i * e->p.ffn : m->ones,
                          e->p.ffn);
}

static void add_ffn(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct slice *s = ctx;
    for (size_t i = begin; i < end; i++) add_residual(s, i, s->b->scale2);
}

void encoding_block(struct encoding *x, struct compute_pool *pool, uint32_t at, uint32_t n)
{
    struct slice s = {x, &x->e->w.blocks[x->block], at, n};
    const struct encoder_hparams *p = &x->e->p;
    encoding_run(pool, attention, &s, p->heads * ((n + QUERIES - 1) / QUERIES), 1);
    encoding_multiply(x, pool, &s.b->out, x->scratch.in, n, x->scratch.out, p->dim);
    encoding_run(pool, norm_before_ffn, &s, n, 1);
    if (s.b->gate.panels) {
        encoding_multiply(x, pool, &s.b->gate, x->scratch.in, n, x->scratch.mid, p->ffn);
        encoding_multiply(x, pool, &s.b->up, x->scratch.in, n, x->scratch.up, p->ffn);
    } else {
        encoding_multiply(x, pool, &s.b->up, x->scratch.in, n, x->scratch.mid, p->ffn);
    }
    encoding_run(pool, activate, &s, n, 1);
    encoding_multiply(x, pool, &s.b->down, x->scratch.mid, n, x->scratch.out, p->dim);
    encoding_run(pool, add_ffn, &s, n, 1);
}

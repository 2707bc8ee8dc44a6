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

/* Queries [first, first + n) of the slice, one head: all segments, then their merge to x->scratch.in. */
static void attend(const struct slice *s, uint32_t head, uint32_t first, uint32_t n)
{
    const struct encoding *x = s->x;
    const uint32_t dim = x->e->p.dim, width = dim / x->e->p.heads;
    const float *query[QUERIES];
    uint32_t begin[QUERIES] = {0}, end[QUERIES];
    const void *k[SEGMENT_BLOCKS], *v[SEGMENT_BLOCKS];
    const size_t own = (size_t)head * x->segments * x->slice + first;
    for (uint32_t i = 0; i < n; i++) query[i] = x->query + (size_t)(s->at + first + i) * dim + head * width;
    for (uint32_t part = 0; part < x->segments; part++) {
        const uint32_t rows = min(KV_SEGMENT, x->rows - part * KV_SEGMENT), blocks = (rows + KV_BLOCK - 1) / KV_BLOCK;
        const size_t to = own + (size_t)part * x->slice;
        for (uint32_t i = 0; i < n; i++) end[i] = rows;
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
        x->e->kern->attn_merge(x->scratch.in + (size_t)(first + i) * dim + head * width, x->scratch.m + own + i,
                               x->scratch.l + own + i, x->slice, x->scratch.o + (own + i) * width,
                               (size_t)x->slice * width, x->segments, width);
}

/* An item is some queries of one head. */
static void attention(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct slice *s = ctx;
    const uint32_t groups = (s->n + QUERIES - 1) / QUERIES;
    for (uint32_t i = begin; i < end; i++) {
        uint32_t first = i % groups * QUERIES;
        attend(s, i / groups, first, min(QUERIES, s->n - first));
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
    for (size_t i = begin; i < end; i++)
        encoding_activate(e->kern, e->p.act, s->x->scratch.mid + i * e->p.ffn, s->x->scratch.ones, e->p.ffn);
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
    encoding_multiply(x, pool, &s.b->up, x->scratch.in, n, x->scratch.mid, p->ffn);
    encoding_run(pool, activate, &s, n, 1);
    encoding_multiply(x, pool, &s.b->down, x->scratch.mid, n, x->scratch.out, p->dim);
    encoding_run(pool, add_ffn, &s, n, 1);
}

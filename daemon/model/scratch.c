/* SPDX-License-Identifier: MIT */
#include "daemon/model/cpu.h"
#include "daemon/model/memory.h"
#include <stdio.h>
#include <sys/mman.h>

#define TILE_ROWS 64    /* queries of one KV head that a tile has at best */
#define WAVE_ROWS 16384 /* partial results that still fit into a cache */
/* A tile of t <= TILE_ROWS tokens that slide over n sinks and W others sees at most ceil(n / 512) parts of sinks and
 * ceil((W + t - 2) / 512) + 1 of the window; n + W <= ctx. */
#define MORE_PARTS 3

/* Counts first (base NULL), hands out pointers then. */
struct carver {
    uint8_t *base;
    size_t at;
};

static void *carve(struct carver *c, size_t n, size_t size)
{
    void *p = c->base ? c->base + c->at : NULL;
    c->at += (n * size + KERN_ALIGN - 1) & ~(size_t)(KERN_ALIGN - 1);
    return p;
}

static uint32_t max(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void lay_out(struct scratch *s, struct carver *c, const struct shape *y, size_t n, size_t threads)
{
    uint32_t q = y->heads * y->head_dim, kv = y->kv_heads * y->head_dim, wide = max(max(y->dim, q), y->ffn);
    size_t tile_rows = (size_t)s->tile_tokens * (y->heads / y->kv_heads), blocks = (wide + KERN_BLOCK - 1) / KERN_BLOCK;
    s->tokens = carve(c, n, sizeof(*s->tokens));
    s->x = carve(c, n * y->dim, sizeof(float));
    s->h = carve(c, n * y->dim, sizeof(float));
    s->q = carve(c, n * q, sizeof(float));
    s->k = carve(c, n * kv, sizeof(float));
    s->v = carve(c, n * kv, sizeof(float));
    s->att = carve(c, n * q, sizeof(float));
    s->gate = carve(c, n * y->ffn, sizeof(float));
    s->up = carve(c, n * y->ffn, sizeof(float));
    for (uint32_t i = 0; i < shape_ropes(y); i++) s->cs[i] = carve(c, n * y->rope_dim, sizeof(float));
    s->sink_q = carve(c, n * q, sizeof(float));
    s->sink_cs = carve(c, n * y->rope_dim, sizeof(float));
    s->aq = carve(c, n * wide, 1);
    s->ad = carve(c, n * blocks, sizeof(float));
    s->as = carve(c, n * blocks * 2, sizeof(int16_t));
    s->m = carve(c, s->rows, sizeof(float));
    s->l = carve(c, s->rows, sizeof(float));
    s->o = carve(c, (size_t)s->rows * y->head_dim, sizeof(float));
    s->tiles = carve(c, n, sizeof(*s->tiles));
    s->items = carve(c, s->rows, sizeof(*s->items));
    s->query = carve(c, threads * tile_rows, sizeof(*s->query));
    s->begin = carve(c, threads * tile_rows, sizeof(uint32_t));
    s->end = carve(c, threads * tile_rows, sizeof(uint32_t));
}

int scratch_init(struct scratch *s, const struct shape *y, uint32_t tokens, uint32_t ctx, uint32_t threads)
{
    struct carver c = {0};
    uint32_t group = y->heads / y->kv_heads, segments = (ctx + KV_SEGMENT - 1) / KV_SEGMENT;
    *s = (struct scratch){.tile_tokens = max(TILE_ROWS / group, 1)};
    /* A wave holds at least one token of the longest context. */
    s->rows = max(y->heads * (segments + MORE_PARTS), WAVE_ROWS);
    lay_out(s, &c, y, tokens, threads);
    s->size = c.at;
    char what[64];
    snprintf(what, sizeof(what), "batches of %u tokens", tokens);
    int r = memory_map(&s->mem, s->size, true, what);
    if (r) return r;
    c = (struct carver){s->mem, 0};
    lay_out(s, &c, y, tokens, threads);
    return 0;
}

void scratch_fini(struct scratch *s)
{
    if (s->mem) munmap(s->mem, s->size);
    *s = (struct scratch){0};
}

/* SPDX-License-Identifier: MIT */
/* Attention of tiles, and its merge. */
#include "kernels/kv.h"
#include "tests/backend/cuda/check-cuda.h"
#include <stdio.h>
#include <string.h>

/* A sequence whose last @n tokens are queries. Its blocks lie in any order; unseen slots are NaN. */
struct attn_case {
    struct kv_case kv;
    uint32_t len, n, window; /* window 0: all */
    float cap;
    bool sinks; /* each head has a sink score */
    uint32_t table[BLOCKS];
    uint8_t *blocks;
    const float *q, *scores;
    const float *slopes; /* [heads] of ALiBi, or NULL */
};

#define WIDEST 512 /* values of a head */

static void fill_blocks(struct attn_case *c)
{
    const struct kv_case *y = &c->kv;
    const uint32_t n = (c->len + KV_BLOCK - 1) / KV_BLOCK, first = c->len - c->n;
    c->blocks = mem(BLOCKS * y->stride);
    memset(c->blocks, 0xff, BLOCKS * y->stride);
    for (uint32_t i = 0; i < n; i++) c->table[i] = (i * 7 + 3) % BLOCKS;
    for (uint32_t pos = c->window && first + 1 > c->window ? first + 1 - c->window : 0; pos < c->len; pos++)
        for (uint32_t h = 0; h < y->kv_heads; h++) {
            float k[WIDEST], v[WIDEST];
            for (uint32_t d = 0; d < y->dim; d++) k[d] = rng_float(), v[d] = rng_float();
            uint8_t *to = c->blocks + c->table[pos / KV_BLOCK] * y->stride + 2 * h * y->half;
            ref->kv_store[y->type](to, to + y->half, pos % KV_BLOCK, k, v, y->dim);
        }
}

static uint32_t first_seen(const struct attn_case *c, uint32_t pos)
{
    return c->window && pos + 1 > c->window ? pos + 1 - c->window : 0;
}

/* What one query gets, by the definition. */
static void want_attn(const struct attn_case *c, uint32_t token, uint32_t head, float *out)
{
    const struct kv_case *y = &c->kv;
    const uint32_t pos = c->len - c->n + token, seen = first_seen(c, pos);
    float m[8], l[8], o[8 * WIDEST];
    size_t parts = 0;
    for (uint32_t s = seen / KV_SEGMENT; s <= pos / KV_SEGMENT; s++, parts++) {
        const void *k[16], *v[16];
        const uint32_t from = s * KV_SEGMENT, end = pos + 1 - from < KV_SEGMENT ? pos + 1 - from : KV_SEGMENT;
        const uint32_t begin = seen > from ? seen - from : 0, blocks = (end + KV_BLOCK - 1) / KV_BLOCK;
        for (uint32_t b = 0; b < blocks; b++) {
            const uint8_t *at = c->blocks + c->table[from / KV_BLOCK + b] * y->stride;
            k[b] = at + head / (y->heads / y->kv_heads) * 2 * y->half;
            v[b] = (const uint8_t *)k[b] + y->half;
        }
        const float *q = c->q + ((size_t)token * y->heads + head) * y->dim;
        const int32_t place = (int32_t)(pos - from);
        const struct kern_attn a = {.q = &q,
                                    .begin = &begin,
                                    .end = &end,
                                    .n_q = 1,
                                    .dim = y->dim,
                                    .k = k,
                                    .v = v,
                                    .n_blocks = blocks,
                                    .scale = 0.3f,
                                    .cap = c->cap,
                                    .slope = c->slopes ? &c->slopes[head] : NULL,
                                    .at = c->slopes ? &place : NULL,
                                    .m = &m[parts],
                                    .l = &l[parts],
                                    .o = o + parts * y->dim};
        ref->attn[y->type](&a);
    }
    if (c->sinks) {
        m[parts] = c->scores[head], l[parts] = 1;
        memset(o + parts * y->dim, 0, y->dim * sizeof(*o));
        parts++;
    }
    ref->attn_merge(out, m, l, 1, o, y->dim, parts, y->dim);
}

/* Tiles of up to @most tokens, as the backend makes them. */
static uint32_t make_tiles(const struct attn_case *c, uint32_t most, struct cuda_tile *tiles, struct cuda_seen *seen)
{
    uint32_t n = 0, row = 0;
    for (uint32_t t = 0; t < c->n; t++) {
        const uint32_t pos = c->len - c->n + t, begin = first_seen(c, pos);
        seen[t] = (struct cuda_seen){begin, pos + 1, row, pos / KV_SEGMENT - begin / KV_SEGMENT + 1};
        row += seen[t].parts;
    }
    for (uint32_t t = 0, m; t < c->n; t += m) {
        const uint32_t segment = seen[t].begin / KV_SEGMENT;
        m = c->n - t < most ? c->n - t : most;
        while (m > 1 && seen[t + m - 1].begin / KV_SEGMENT != segment) m--;
        const uint32_t end = seen[t + m - 1].end;
        for (uint32_t s = segment; s * KV_SEGMENT < end; s++) {
            const uint32_t least = seen[t].begin / KV_BLOCK * KV_BLOCK, from = s * KV_SEGMENT;
            tiles[n++] = (struct cuda_tile){.token = t,
                                            .n = m,
                                            .part = s - segment,
                                            .from = from > least ? from : least,
                                            .to = end < from + KV_SEGMENT ? end : from + KV_SEGMENT};
        }
    }
    return n;
}

enum attn_kernel { FEW, ALIBI, ANY, SOME, CAPPED, MANY, ATTN_KERNELS };

/* Queries of a tile of a kernel; 0: it cannot compute the case. */
static uint32_t tile_rows(const struct attn_case *c, enum attn_kernel which)
{
    const uint32_t dim = c->kv.dim, rows = which == MANY ? (dim <= 64 ? 128 : 64) : which <= ALIBI ? 16 : 32;
    const bool fits = dim % 8 == 0 && (which != MANY || dim <= 128) && (c->cap > 0) == (which == CAPPED) &&
                      c->kv.heads / c->kv.kv_heads <= rows;
    if ((which == ALIBI) != (c->slopes != NULL) || (dim > 256 && which > ALIBI)) return 0;
    return which < SOME || fits ? rows : 0;
}

static void run_merge(const struct attn_case *c, bool many, const struct cuda_merge *a)
{
    const struct cuda_grid g = {c->n, a->heads, 32, 0}, of_many = {c->n, (a->heads * a->dim + 1023) / 1024, 256, 0};
    dev_run(many && a->dim % 4 == 0 ? "cuda_merge_many" : "cuda_merge", many && a->dim % 4 == 0 ? of_many : g, a);
}

/* Start the kernel for @n tiles: cuda_attn_alibi with all of @far, the others with its first member. */
static void run_attn(const struct attn_case *c, enum attn_kernel which, uint32_t n, const struct cuda_attn_alibi *far)
{
    const struct cuda_attn *a = &far->a;
    const uint32_t dim = c->kv.dim, size = dim <= 64 ? 0 : dim <= 128 ? 1 : 2, wide = (dim + 3) / 4 * 4;
    const uint32_t rows = tile_rows(c, which), most = rows / a->group ? rows / a->group * a->group : a->group;
    const char *const names[] = {"cuda_attn_few_%s",     "cuda_attn_alibi",        "cuda_attn_%s_%u",
                                 "cuda_attn_some_%s_%u", "cuda_attn_capped_%s_%u", "cuda_attn_many_%s_%u"};
    const unsigned shared[] = {(most * (wide + 512 + 48) + 2 * wide) * 4,
                               (most * (wide + 512 + 48) + 2 * wide) * 4,
                               most * wide * 4 + 4 * (size == 2 ? 4 : 8) * 128,
                               CUDA_ATTN_SHARED(rows, 64u << size),
                               CUDA_ATTN_SHARED(rows, 64u << size),
                               CUDA_ATTN_SHARED(rows, 64u << size)};
    const unsigned number = which == ANY ? 2u << size : 64u << size;
    char name[48];
    snprintf(name, sizeof(name), names[which], kern_kv_name(c->kv.type), number);
    struct cuda_grid grid = {n, c->kv.kv_heads, which <= ALIBI ? 512 : 128, shared[which]};
    if (which >= SOME) grid.x *= grid.y, grid.y = 1;
    dev_run(name, grid, a);
}

static void one_attn(struct attn_case c, enum attn_kernel which)
{
    const uint32_t rows = tile_rows(&c, which);
    const struct kv_case *y = &c.kv;
    const uint32_t group = y->heads / y->kv_heads;
    const size_t nq = (size_t)c.n * y->heads * y->dim;
    struct cuda_tile *tiles = mem(c.n * 4 * sizeof(*tiles));
    struct cuda_seen *seen = mem(c.n * sizeof(*seen));
    float *want = mem(nq * sizeof(*want));
    c.q = kv_floats(nq), c.scores = kv_floats(y->heads);
    fill_blocks(&c);
    for (uint32_t t = 0; t < c.n; t++)
        for (uint32_t h = 0; h < y->heads; h++) want_attn(&c, t, h, want + ((size_t)t * y->heads + h) * y->dim);
    const uint32_t most = rows / group ? rows / group : 1, n = make_tiles(&c, most, tiles, seen);
    const size_t results = (size_t)(seen[c.n - 1].row + seen[c.n - 1].parts) * y->heads;
    struct cuda_attn a = {.q = kv_up(c.q, nq),
                          .tiles = dev_up(tiles, n * sizeof(*tiles)),
                          .seen = dev_up(seen, c.n * sizeof(*seen)),
                          .table = dev_up(c.table, sizeof(c.table)),
                          .kv = kv_of(y, dev_up(c.blocks, BLOCKS * y->stride)),
                          .m = dev_poisoned(results * 4),
                          .l = dev_poisoned(results * 4),
                          .o = dev_poisoned(results * y->dim * 4),
                          .scale = 0.3f,
                          .cap = c.cap,
                          .heads = (uint16_t)y->heads,
                          .kv_heads = (uint16_t)y->kv_heads,
                          .dim = (uint16_t)y->dim,
                          .group = (uint16_t)group,
                          .width = KV_SEGMENT};
    struct cuda_token *tokens = mem(c.n * sizeof(*tokens));
    for (uint32_t t = 0; t < c.n; t++) tokens[t] = (struct cuda_token){.pos = c.len - c.n + t};
    const struct cuda_attn_alibi far = {a, c.slopes ? kv_up(c.slopes, y->heads) : NULL,
                                        dev_up(tokens, c.n * sizeof(*tokens))};
    run_attn(&c, which, n, &far);
    struct cuda_merge m = {.m = a.m,
                           .l = a.l,
                           .o = a.o,
                           .seen = a.seen,
                           .heads = y->heads,
                           .dim = y->dim,
                           .sink_scores = c.sinks ? kv_up(c.scores, y->heads) : NULL,
                           .f = dev_poisoned(nq * sizeof(float))};
    if (y->dim % 32 == 0) m.q = dev_acts(c.n, (size_t)y->heads * y->dim);
    run_merge(&c, which > ALIBI || y->dim > 256, &m);
    same_floats(dev_down(m.f, nq * sizeof(float)), want, nq, "attention: dim %u group %u n %u of %u window %u rows %u",
                y->dim, group, c.n, c.len, c.window, rows);
    if (m.q.q) same_acts(&m.q, want, c.n, (size_t)y->heads * y->dim, "attention");
    dev_reset();
}

static struct kv_case wide_case(enum kern_kv type, uint32_t dim, uint32_t kv_heads)
{
    const size_t half = kern_kv_bytes(type, dim);
    return (struct kv_case){type, kv_heads * (1 + rng_below(5)), kv_heads, dim, half, 2 * half * kv_heads};
}

void check_cuda_attn(void **state)
{
    rng_seed(1);
    for (unsigned i = 0; i < 60; i++) {
        struct attn_case c = {.kv = random_case((enum kern_kv)(uintptr_t)*state, i)};
        c.len = 1 + rng_below(i % 3 ? 1200 : 100);
        c.n = 1 + rng_below(c.len < 40 ? c.len : 40);
        c.window = i % 4 == 1 ? 1 + rng_below(600) : 0;
        c.cap = i % 7 == 3 || i % 7 == 6 ? 50 : 0;
        c.sinks = i % 7 == 0;
        for (enum attn_kernel which = FEW; which < ATTN_KERNELS; which++)
            if (tile_rows(&c, which)) one_attn(c, which);
        c.slopes = kv_floats(c.kv.heads);
        if (c.kv.type == KERN_KV_F32) one_attn(c, ALIBI);
    }
    for (unsigned i = 0; i < 6; i++) {
        const uint32_t kv_heads = 1 + rng_below(2);
        const struct kv_case y = wide_case((enum kern_kv)(uintptr_t)*state, i % 2 ? WIDEST : 320, kv_heads);
        const uint32_t len = 1 + rng_below(700);
        one_attn((struct attn_case){.kv = y, .len = len, .n = 1 + rng_below(len < 9 ? len : 9)}, FEW);
    }
}

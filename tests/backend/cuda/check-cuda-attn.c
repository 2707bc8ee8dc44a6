/* SPDX-License-Identifier: MIT */
/* Heads, KV blocks, attention and its merge. */
#include "kernels/kv.h"
#include "tests/backend/cuda/check-cuda.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define BLOCKS 40 /* KV blocks of a case */

static float *random_floats(size_t n)
{
    float *x = mem(n * sizeof(*x));
    for (size_t i = 0; i < n; i++) x[i] = rng_float();
    return x;
}

static float *up_floats(const float *x, size_t n)
{
    return dev_up(x, n * sizeof(*x));
}

static const uint32_t dims[] = {64, 128, 32, 80, 100, 16, 96, 256, 40, 6};

struct kv_case {
    enum kern_kv type;
    uint32_t heads, kv_heads, dim;
    size_t half, stride; /* bytes of K of one KV head, and of a block */
};

static struct kv_case random_case(enum kern_kv type, unsigned i)
{
    struct kv_case c = {.type = type, .dim = dims[i % 10], .kv_heads = 1 + rng_below(3)};
    c.heads = c.kv_heads * (1 + rng_below(9));
    c.half = kern_kv_bytes(type, c.dim);
    c.stride = 2 * c.half * c.kv_heads;
    return c;
}

static struct cuda_kv kv_of(const struct kv_case *c, void *mem)
{
    return (struct cuda_kv){mem, c->stride, (uint32_t)c->half, (uint32_t)(2 * c->half)};
}

/* --- heads --- */

struct head_case {
    struct kv_case kv;
    uint32_t n, rot;
    bool bias, norm, each, rotates, neox, after, unit, warm, v_norm;
    const float *bq, *bk, *bv, *nq, *nk, *cs, *sink_cs, *warmth;
};

/* One head of a token: bias, norm, rotation. */
static void finish(const struct head_case *c, float *x, const float *bias, const float *norm, const float *cs)
{
    const uint32_t dim = c->kv.dim;
    float ones[256];
    for (uint32_t i = 0; i < 256; i++) ones[i] = 1;
    if (c->bias) ref->add(x, bias, dim);
    if (c->norm && !c->after) ref->rmsnorm(x, x, norm, dim, 1e-6f);
    if (c->rotates) ref->rope(x, 1, dim, c->rot, cs, c->neox);
    if (c->unit && c->rotates) ref->rmsnorm(x, x, ones, dim, 1e-6f);
    if (c->norm && c->after) ref->rmsnorm(x, x, norm, dim, 1e-6f);
}

static void want_queries(const struct head_case *c, const float *q, float *out, const float *cs, uint32_t t)
{
    for (uint32_t h = 0; h < c->kv.heads; h++) {
        float *x = out + ((size_t)t * c->kv.heads + h) * c->kv.dim;
        memcpy(x, q + ((size_t)t * c->kv.heads + h) * c->kv.dim, c->kv.dim * sizeof(*x));
        finish(c, x, c->bq + h * c->kv.dim, c->nq + (c->each ? h * c->kv.dim : 0), cs + (size_t)t * c->rot);
        if (c->warm && c->warmth[t] != 1) ref->scale(x, c->warmth[t], c->kv.dim);
    }
}

static void want_kv(const struct head_case *c, const float *k, const float *v, uint8_t *blocks, uint32_t t,
                    uint32_t pos, uint32_t block)
{
    float key[256], value[256], ones[256];
    for (uint32_t i = 0; i < 256; i++) ones[i] = 1;
    for (uint32_t h = 0; h < c->kv.kv_heads; h++) {
        const uint32_t dim = c->kv.dim;
        memcpy(key, k + ((size_t)t * c->kv.kv_heads + h) * dim, dim * sizeof(*key));
        memcpy(value, v + ((size_t)t * c->kv.kv_heads + h) * dim, dim * sizeof(*value));
        finish(c, key, c->bk + h * dim, c->nk + (c->each ? h * dim : 0), c->cs + (size_t)t * c->rot);
        if (c->bias) ref->add(value, c->bv + h * dim, dim);
        if (c->v_norm) ref->rmsnorm(value, value, ones, dim, 1e-6f);
        uint8_t *to = blocks + block * c->kv.stride + 2 * h * c->kv.half;
        ref->kv_store[c->kv.type](to, to + c->kv.half, pos % KV_BLOCK, key, value, dim);
    }
}

static struct cuda_heads heads_args(const struct head_case *c, const struct cuda_token *tokens, void *kv)
{
    const size_t all = (size_t)c->kv.heads * c->kv.dim;
    return (struct cuda_heads){.q_bias = c->bias ? up_floats(c->bq, all) : NULL,
                               .k_bias = c->bias ? up_floats(c->bk, all) : NULL,
                               .v_bias = c->bias ? up_floats(c->bv, all) : NULL,
                               .q_norm = c->norm ? up_floats(c->nq, all) : NULL,
                               .k_norm = c->norm ? up_floats(c->nk, all) : NULL,
                               .cs = up_floats(c->cs, (size_t)c->n * c->rot),
                               .sink_cs = up_floats(c->sink_cs, (size_t)c->n * c->rot),
                               .warmth = c->warm ? up_floats(c->warmth, c->n) : NULL,
                               .token = dev_up(tokens, c->n * sizeof(*tokens)),
                               .kv = kv_of(&c->kv, kv),
                               .eps = 1e-6f,
                               .heads = (uint16_t)c->kv.heads,
                               .kv_heads = (uint16_t)c->kv.kv_heads,
                               .dim = (uint16_t)c->kv.dim,
                               .rot = (uint16_t)c->rot,
                               .group = 1,
                               .type = (uint8_t)c->kv.type,
                               .rotates = c->rotates,
                               .neox = c->neox,
                               .each = c->each,
                               .after = c->after,
                               .unit = c->unit,
                               .v_norm = c->v_norm};
}

static void one_heads(struct head_case c)
{
    const struct kv_case *y = &c.kv;
    const size_t nq = (size_t)c.n * y->heads * y->dim, nk = (size_t)c.n * y->kv_heads * y->dim;
    const float *q = random_floats(nq), *k = random_floats(nk), *v = random_floats(nk);
    float *want = mem(nq * sizeof(*want)), *sinks = mem(nq * sizeof(*sinks));
    uint8_t *blocks = mem(BLOCKS * y->stride);
    struct cuda_token *tokens = mem(c.n * sizeof(*tokens));
    const size_t all = (size_t)y->heads * y->dim;
    c.bq = random_floats(all), c.bk = random_floats(all), c.bv = random_floats(all);
    c.nq = random_floats(all), c.nk = random_floats(all), c.warmth = random_floats(c.n);
    c.cs = random_floats((size_t)c.n * c.rot), c.sink_cs = random_floats((size_t)c.n * c.rot);
    void *kv = dev_up(blocks, BLOCKS * y->stride);
    for (uint32_t t = 0; t < c.n; t++) {
        tokens[t] =
            (struct cuda_token){.pos = t * 37 + rng_below(30), .block = {0, rng_below(BLOCKS)}, .slides = rng_below(2)};
        want_queries(&c, q, want, c.cs, t);
        if (tokens[t].slides) want_queries(&c, q, sinks, c.sink_cs, t);
        want_kv(&c, k, v, blocks, t, tokens[t].pos, tokens[t].block[1]);
    }
    struct cuda_heads a = heads_args(&c, tokens, kv);
    a.q = up_floats(q, nq), a.k = up_floats(k, nk), a.v = up_floats(v, nk);
    a.q_sinks = dev_poisoned(nq * sizeof(float));
    const struct cuda_grid g = {c.n, y->heads + y->kv_heads, 32, (unsigned)(y->dim * sizeof(float))};
    dev_run("cuda_heads", g, &a);
    same_floats(dev_down(a.q, nq * sizeof(float)), want, nq, "queries of dim %u", y->dim);
    same_floats(dev_down(a.q_sinks, nq * sizeof(float)), sinks, nq, "queries for sinks of dim %u", y->dim);
    same_bytes(dev_down(kv, BLOCKS * y->stride), blocks, BLOCKS * y->stride, "KV of dim %u", y->dim);
    dev_reset();
}

void check_cuda_heads(void **state)
{
    rng_seed(1);
    for (unsigned i = 0; i < 120; i++) {
        struct head_case c = {.kv = random_case((enum kern_kv)(uintptr_t)*state, i), .n = 1 + rng_below(3)};
        c.rot = rng_below(2) ? c.kv.dim : c.kv.dim / 4 * 2;
        c.bias = rng_below(2), c.norm = rng_below(2), c.each = rng_below(2), c.rotates = rng_below(4);
        c.neox = rng_below(2), c.after = rng_below(3) == 0, c.unit = rng_below(4) == 0, c.warm = rng_below(3) == 0;
        c.v_norm = rng_below(4) == 0;
        one_heads(c);
    }
}

void check_cuda_copy(void **state)
{
    rng_seed(1);
    for (unsigned i = 0; i < 20; i++) {
        const struct kv_case c = random_case((enum kern_kv)(uintptr_t)*state, i);
        const uint32_t layers = 1 + rng_below(3), blocks = 4, tokens = rng_below(33);
        const size_t layer = blocks * c.stride, bytes = layers * layer;
        uint8_t *kv = mem(bytes);
        for (size_t n = 0; n < bytes; n++) kv[n] = (uint8_t)rng();
        void *on = dev_up(kv, bytes);
        for (uint32_t l = 0; l < layers; l++)
            for (uint32_t h = 0; h < c.kv_heads; h++)
                kern_kv_copy(c.type, kv + l * layer + c.stride + 2 * h * c.half,
                             kv + l * layer + 3 * c.stride + 2 * h * c.half, tokens, c.dim);
        struct cuda_copy a = {kv_of(&c, on), layer, 1, 3, tokens, c.dim, c.type};
        dev_run("cuda_kv_copy", (struct cuda_grid){layers, c.kv_heads, 256, 0}, &a);
        same_bytes(dev_down(on, bytes), kv, bytes, "a copy of %u tokens of dim %u", tokens, c.dim);
        dev_reset();
    }
}

/* --- attention --- */

/* A sequence whose last @n tokens are queries. Its blocks lie in any order; unseen slots are NaN. */
struct attn_case {
    struct kv_case kv;
    uint32_t len, n, window; /* window 0: all */
    float cap;
    bool sinks; /* each head has a sink score */
    uint32_t table[BLOCKS];
    uint8_t *blocks;
    const float *q, *scores;
};

static void fill_blocks(struct attn_case *c)
{
    const struct kv_case *y = &c->kv;
    const uint32_t n = (c->len + KV_BLOCK - 1) / KV_BLOCK, first = c->len - c->n;
    c->blocks = mem(BLOCKS * y->stride);
    memset(c->blocks, 0xff, BLOCKS * y->stride);
    for (uint32_t i = 0; i < n; i++) c->table[i] = (i * 7 + 3) % BLOCKS;
    for (uint32_t pos = c->window && first + 1 > c->window ? first + 1 - c->window : 0; pos < c->len; pos++)
        for (uint32_t h = 0; h < y->kv_heads; h++) {
            float k[256], v[256];
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
    float m[8], l[8], o[8 * 256];
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

enum attn_kernel { FEW, ANY, SOME, MANY, ATTN_KERNELS };

/* Queries of a tile of a kernel; 0: it cannot compute the case. */
static uint32_t tile_rows(const struct attn_case *c, enum attn_kernel which)
{
    const uint32_t dim = c->kv.dim, rows = which == MANY ? (dim <= 64 ? 128 : 64) : which == FEW ? 16 : 32;
    const bool refused = dim > 128 || dim % 8 || c->cap > 0 || c->kv.heads / c->kv.kv_heads > rows;
    return which >= SOME && refused ? 0 : rows;
}

/* Start the kernel for @n tiles. */
static void run_attn(const struct attn_case *c, enum attn_kernel which, uint32_t n, const struct cuda_attn *a)
{
    const uint32_t dim = c->kv.dim, size = dim <= 64 ? 0 : dim <= 128 ? 1 : 2, wide = (dim + 3) / 4 * 4;
    const uint32_t rows = tile_rows(c, which), most = rows / a->group ? rows / a->group * a->group : a->group;
    const char *const names[] = {"cuda_attn_few_%s", "cuda_attn_%s_%u", "cuda_attn_some_%s_%u", "cuda_attn_many_%s_%u"};
    const unsigned shared[] = {(most * (wide + 512 + 48) + 2 * wide) * 4,
                               most * wide * 4 + 4 * (size == 2 ? 4 : 8) * 128, CUDA_ATTN_SHARED(rows, 64u << size, 1),
                               CUDA_ATTN_SHARED(rows, 64u << size, 1)};
    const unsigned number = which == ANY ? 2u << size : 64u << size;
    char name[48];
    snprintf(name, sizeof(name), names[which], kern_kv_name(c->kv.type), number);
    dev_run(name, (struct cuda_grid){n, c->kv.kv_heads, which == FEW ? 512 : 128, shared[which]}, a);
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
    c.q = random_floats(nq), c.scores = random_floats(y->heads);
    fill_blocks(&c);
    for (uint32_t t = 0; t < c.n; t++)
        for (uint32_t h = 0; h < y->heads; h++) want_attn(&c, t, h, want + ((size_t)t * y->heads + h) * y->dim);
    const uint32_t most = rows / group ? rows / group : 1, n = make_tiles(&c, most, tiles, seen);
    const size_t results = (size_t)(seen[c.n - 1].row + seen[c.n - 1].parts) * y->heads;
    struct cuda_attn a = {.q = up_floats(c.q, nq),
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
                          .group = (uint16_t)group};
    run_attn(&c, which, n, &a);
    struct cuda_merge m = {.m = a.m,
                           .l = a.l,
                           .o = a.o,
                           .seen = a.seen,
                           .heads = y->heads,
                           .dim = y->dim,
                           .sink_scores = c.sinks ? up_floats(c.scores, y->heads) : NULL,
                           .f = dev_poisoned(nq * sizeof(float))};
    if (y->dim % 32 == 0) m.q = dev_acts(c.n, (size_t)y->heads * y->dim);
    dev_run("cuda_merge", (struct cuda_grid){c.n, y->heads, 32, 0}, &m);
    same_floats(dev_down(m.f, nq * sizeof(float)), want, nq, "attention: dim %u group %u n %u of %u window %u rows %u",
                y->dim, group, c.n, c.len, c.window, rows);
    if (m.q.q) same_acts(&m.q, want, c.n, (size_t)y->heads * y->dim, "attention");
    dev_reset();
}

void check_cuda_attn(void **state)
{
    rng_seed(1);
    for (unsigned i = 0; i < 60; i++) {
        struct attn_case c = {.kv = random_case((enum kern_kv)(uintptr_t)*state, i)};
        c.len = 1 + rng_below(i % 3 ? 1200 : 100);
        c.n = 1 + rng_below(c.len < 40 ? c.len : 40);
        c.window = i % 4 == 1 ? 1 + rng_below(600) : 0;
        c.cap = i % 5 == 0 ? 50 : 0;
        c.sinks = i % 7 == 0;
        for (enum attn_kernel which = FEW; which < ATTN_KERNELS; which++)
            if (tile_rows(&c, which)) one_attn(c, which);
    }
}

/* --- heads, attention and merge in one kernel --- */

/* Some tokens of different sequences, each of which has a block of its own for its position. */
struct decode_case {
    struct head_case heads;
    struct cuda_token *tokens;
    struct cuda_tile *tiles;
    struct cuda_seen *seen;
    uint32_t n_tiles, rows, *table;
    float *q, *k, *v;
    uint8_t *blocks;
    bool sinks; /* each head has a sink score */
};

/* The tiles of token @t, and its block table. */
static void add_token(struct decode_case *c, uint32_t t)
{
    const uint32_t pos = rng_below(t % 2 ? 1200 : 60), slides = pos > 70 && rng_below(2), table = t * BLOCKS;
    const uint32_t begin = slides ? pos / 2 : 0, row = c->rows;
    for (uint32_t i = 0; i < BLOCKS; i++) c->table[table + i] = c->heads.n + rng_below(BLOCKS - c->heads.n);
    c->table[table + pos / KV_BLOCK] = t;
    c->tokens[t] = (struct cuda_token){.pos = pos, .block = {0, t}, .slides = slides};
    if (slides) c->tiles[c->n_tiles++] = (struct cuda_tile){t, 1, c->rows++ - row, 0, 20, table, 1};
    for (uint32_t s = begin / KV_SEGMENT; s <= pos / KV_SEGMENT; s++) {
        const uint32_t from = s * KV_SEGMENT, least = begin / KV_BLOCK * KV_BLOCK;
        const uint32_t to = pos + 1 < from + KV_SEGMENT ? pos + 1 : from + KV_SEGMENT;
        c->tiles[c->n_tiles++] = (struct cuda_tile){t, 1, c->rows++ - row, from > least ? from : least, to, table, 0};
    }
    c->seen[t] = (struct cuda_seen){begin, pos + 1, row, c->rows - row};
}

static struct decode_case random_decode(enum kern_kv type, unsigned i)
{
    struct decode_case c = {.heads = {.kv = random_case(type, i), .n = 1 + rng_below(5)}, .sinks = rng_below(4) == 0};
    struct head_case *h = &c.heads;
    const size_t all = (size_t)h->kv.heads * h->kv.dim, each = (size_t)h->kv.kv_heads * h->kv.dim;
    h->rot = rng_below(2) ? h->kv.dim : h->kv.dim / 4 * 2;
    h->bias = rng_below(2), h->norm = rng_below(2), h->rotates = rng_below(4), h->neox = rng_below(2);
    h->warm = rng_below(3) == 0;
    h->bq = random_floats(all), h->bk = random_floats(all), h->bv = random_floats(all);
    h->nq = random_floats(all), h->nk = random_floats(all), h->warmth = random_floats(h->n);
    h->cs = random_floats((size_t)h->n * h->rot), h->sink_cs = random_floats((size_t)h->n * h->rot);
    c.q = random_floats(h->n * all), c.k = random_floats(h->n * each), c.v = random_floats(h->n * each);
    c.tokens = mem(h->n * sizeof(*c.tokens)), c.seen = mem(h->n * sizeof(*c.seen));
    c.tiles = mem((h->n * 4 + 1) * sizeof(*c.tiles)), c.table = mem(h->n * BLOCKS * sizeof(*c.table));
    c.blocks = mem(BLOCKS * h->kv.stride);
    const float *values = random_floats(64 * each);
    for (uint32_t b = 0; b < BLOCKS; b++)
        for (uint32_t slot = 0; slot < KV_BLOCK; slot++)
            want_kv(h, values + rng_below(64) * each, values + rng_below(64) * each, c.blocks, 0, slot, b);
    for (uint32_t t = 0; t < h->n; t++) add_token(&c, t);
    memset(&c.tiles[c.n_tiles++], 0, sizeof(*c.tiles)); /* an empty one */
    return c;
}

/* The arguments, with copies of all that is written. */
static struct cuda_decode decode_args(const struct decode_case *c)
{
    const struct kv_case *y = &c->heads.kv;
    const size_t all = (size_t)c->heads.n * y->heads * y->dim, each = (size_t)c->heads.n * y->kv_heads * y->dim;
    const uint32_t group = y->heads / y->kv_heads;
    struct cuda_decode a = {.heads = heads_args(&c->heads, c->tokens, dev_up(c->blocks, BLOCKS * y->stride))};
    float *q = up_floats(c->q, all), *q_sinks = dev_poisoned(all * sizeof(float));
    a.heads.q = q, a.heads.q_sinks = q_sinks, a.heads.k = up_floats(c->k, each), a.heads.v = up_floats(c->v, each);
    a.attn = (struct cuda_attn){.q = q,
                                .q_sinks = q_sinks,
                                .tiles = dev_up(c->tiles, c->n_tiles * sizeof(*c->tiles)),
                                .seen = dev_up(c->seen, c->heads.n * sizeof(*c->seen)),
                                .table = dev_up(c->table, c->heads.n * BLOCKS * sizeof(*c->table)),
                                .kv = a.heads.kv,
                                .m = dev_poisoned(c->rows * y->heads * sizeof(float)),
                                .l = dev_poisoned(c->rows * y->heads * sizeof(float)),
                                .o = dev_poisoned(c->rows * y->heads * y->dim * sizeof(float)),
                                .scale = 0.3f,
                                .cap = c->heads.neox ? 30 : 0,
                                .heads = (uint16_t)y->heads,
                                .kv_heads = (uint16_t)y->kv_heads,
                                .dim = (uint16_t)y->dim,
                                .group = (uint16_t)group};
    a.merge = (struct cuda_merge){.m = a.attn.m,
                                  .l = a.attn.l,
                                  .o = a.attn.o,
                                  .sink_scores = c->sinks ? up_floats(c->heads.bq, y->heads) : NULL,
                                  .seen = a.attn.seen,
                                  .f = dev_poisoned(all * sizeof(float)),
                                  .heads = y->heads,
                                  .dim = y->dim};
    if (y->dim % KERN_BLOCK == 0) a.merge.q = dev_acts(c->heads.n, (size_t)y->heads * y->dim);
    const size_t counters = c->heads.n * y->kv_heads * sizeof(*a.done);
    a.done = dev_up(memset(mem(counters), 0, counters), counters);
    return a;
}

/* One kernel, which is run twice, gives what @a gave in three, which other checks compare with the definition. */
static void same_decode(const struct decode_case *c, const char *which, unsigned shared, const struct cuda_decode *a)
{
    const struct kv_case *y = &c->heads.kv;
    const struct cuda_decode b = decode_args(c);
    const uint32_t n = c->heads.n;
    const size_t all = (size_t)n * y->heads * y->dim;
    const float *want = dev_down(a->merge.f, all * sizeof(float));
    char name[48];
    snprintf(name, sizeof(name), "cuda_%s_%s", which, kern_kv_name(y->type));
    for (unsigned k = 0; k < 2; k++) dev_run(name, (struct cuda_grid){c->n_tiles, y->kv_heads, 512, shared}, &b);
    same_floats(dev_down(b.merge.f, all * sizeof(float)), want, all, "%s of %u, dim %u heads %u", name, n, y->dim,
                y->heads);
    if (b.merge.q.q) same_acts(&b.merge.q, want, n, (size_t)y->heads * y->dim, name);
    same_bytes(dev_down(b.heads.kv.mem, BLOCKS * y->stride), dev_down(a->heads.kv.mem, BLOCKS * y->stride),
               BLOCKS * y->stride, "KV of %s, dim %u", name, y->dim);
    const uint32_t *done = dev_down(b.done, n * y->kv_heads * sizeof(*done));
    for (uint32_t k = 0; k < n * y->kv_heads; k++) assert_int_equal(done[k], 0);
}

static void one_decode(enum kern_kv type, unsigned i)
{
    const struct decode_case c = random_decode(type, i);
    const struct kv_case *y = &c.heads.kv;
    const struct cuda_decode a = decode_args(&c);
    const uint32_t n = c.heads.n, group = y->heads / y->kv_heads, wide = (y->dim + 3) / 4 * 4;
    const unsigned shared = (group * (wide + 512 + 48) + 2 * wide) * 4;
    const unsigned near = shared + 128 + (c.heads.rot * 4 + 127) / 128 * 128 + 16 * 2 * (unsigned)y->half;
    char name[48];
    dev_run("cuda_heads", (struct cuda_grid){n, y->heads + y->kv_heads, 32, y->dim * 4}, &a.heads);
    snprintf(name, sizeof(name), "cuda_attn_few_%s", kern_kv_name(type));
    dev_run(name, (struct cuda_grid){c.n_tiles, y->kv_heads, 512, shared}, &a.attn);
    dev_run("cuda_merge", (struct cuda_grid){n, y->heads, 32, 0}, &a.merge);
    same_decode(&c, "decode", shared, &a);
    if (device.early && near <= 216 << 10) same_decode(&c, "near", near, &a);
    dev_reset();
}

void check_cuda_decode(void **state)
{
    rng_seed(1);
    for (unsigned i = 0; i < 80; i++) one_decode((enum kern_kv)(uintptr_t)*state, i);
}

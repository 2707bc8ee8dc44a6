/* SPDX-License-Identifier: MIT */
/* Heads, KV blocks, and decode: heads, attention and merge in one kernel. */
#include "kernels/cuda/deep-args.h"
#include "kernels/kv.h"
#include "tests/backend/cuda/check-cuda.h"
#include <stdio.h>
#include <string.h>

#define DEEP_SLOTS 6 /* of cuda_deep_* */

float *kv_floats(size_t n)
{
    float *x = mem(n * sizeof(*x));
    for (size_t i = 0; i < n; i++) x[i] = rng_float();
    return x;
}

float *kv_up(const float *x, size_t n)
{
    return dev_up(x, n * sizeof(*x));
}

static const uint32_t dims[] = {64, 128, 32, 80, 100, 16, 96, 256, 40, 6};

struct kv_case random_case(enum kern_kv type, unsigned i)
{
    struct kv_case c = {.type = type, .dim = dims[i % 10], .kv_heads = 1 + rng_below(3)};
    c.heads = c.kv_heads * (1 + rng_below(9));
    c.half = kern_kv_bytes(type, c.dim);
    c.stride = 2 * c.half * c.kv_heads;
    return c;
}

struct cuda_kv kv_of(const struct kv_case *c, void *mem)
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
    return (struct cuda_heads){.q_bias = c->bias ? kv_up(c->bq, all) : NULL,
                               .k_bias = c->bias ? kv_up(c->bk, all) : NULL,
                               .v_bias = c->bias ? kv_up(c->bv, all) : NULL,
                               .q_norm = c->norm ? kv_up(c->nq, all) : NULL,
                               .k_norm = c->norm ? kv_up(c->nk, all) : NULL,
                               .cs = kv_up(c->cs, (size_t)c->n * c->rot),
                               .sink_cs = kv_up(c->sink_cs, (size_t)c->n * c->rot),
                               .warmth = c->warm ? kv_up(c->warmth, c->n) : NULL,
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

enum heads_kernel { HEADS_FEW, HEADS_MANY, HEADS_PLAIN };

static void run_heads(const struct kv_case *y, enum heads_kernel kernel, uint32_t n, const struct cuda_heads *a)
{
    const unsigned bytes = (unsigned)(y->dim * sizeof(float)), heads = y->heads + y->kv_heads;
    const struct cuda_grid few = {n, heads, 32, bytes}, many = {n, (heads + 7) / 8, 256, 8 * bytes},
                           plain = {n, (y->heads * y->dim / 4 + 255) / 256 + (2 * y->kv_heads + 7) / 8, 256, 8 * bytes};
    if (kernel == HEADS_FEW) dev_run("cuda_heads", few, a);
    if (kernel == HEADS_MANY) dev_run("cuda_heads_many", many, a);
    if (kernel == HEADS_PLAIN) dev_run("cuda_heads_plain", plain, a);
}

static void one_heads(struct head_case c, enum heads_kernel kernel)
{
    const struct kv_case *y = &c.kv;
    const size_t nq = (size_t)c.n * y->heads * y->dim, nk = (size_t)c.n * y->kv_heads * y->dim;
    const float *q = kv_floats(nq), *k = kv_floats(nk), *v = kv_floats(nk);
    float *want = mem(nq * sizeof(*want)), *sinks = mem(nq * sizeof(*sinks));
    uint8_t *blocks = mem(BLOCKS * y->stride);
    struct cuda_token *tokens = mem(c.n * sizeof(*tokens));
    const size_t all = (size_t)y->heads * y->dim;
    c.bq = kv_floats(all), c.bk = kv_floats(all), c.bv = kv_floats(all);
    c.nq = kv_floats(all), c.nk = kv_floats(all), c.warmth = kv_floats(c.n);
    c.cs = kv_floats((size_t)c.n * c.rot), c.sink_cs = kv_floats((size_t)c.n * c.rot);
    void *kv = dev_up(blocks, BLOCKS * y->stride);
    for (uint32_t t = 0; t < c.n; t++) {
        tokens[t] = (struct cuda_token){
            .pos = t * 37 + rng_below(30), .block = {0, t * 13 + rng_below(13)}, .slides = rng_below(2)};
        want_queries(&c, q, want, c.cs, t);
        if (tokens[t].slides) want_queries(&c, q, sinks, c.sink_cs, t);
        want_kv(&c, k, v, blocks, t, tokens[t].pos, tokens[t].block[1]);
    }
    struct cuda_heads a = heads_args(&c, tokens, kv);
    a.q = kv_up(q, nq), a.k = kv_up(k, nk), a.v = kv_up(v, nk);
    if (kernel != HEADS_PLAIN) a.q_sinks = dev_poisoned(nq * sizeof(float));
    run_heads(y, kernel, c.n, &a);
    same_floats(dev_down(a.q, nq * sizeof(float)), want, nq, "queries of dim %u", y->dim);
    if (a.q_sinks)
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
        one_heads(c, HEADS_FEW);
        one_heads(c, HEADS_MANY);
        c.norm = c.unit = false, c.rotates = true, c.rot = c.kv.dim;
        if (c.kv.dim % 4 == 0) one_heads(c, HEADS_PLAIN);
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
        const bool latent = i % 3 == 2; /* V is a part of K */
        const size_t each = latent ? c.half : 2 * c.half;
        for (uint32_t l = 0; l < layers; l++)
            for (uint32_t h = 0; h < c.kv_heads; h++)
                (latent ? kern_k_copy : kern_kv_copy)(c.type, kv + l * layer + c.stride + h * each,
                                                      kv + l * layer + 3 * c.stride + h * each, tokens, c.dim);
        struct cuda_copy a = {kv_of(&c, on), layer, 1, 3, tokens, c.dim, c.type};
        a.kv.each = (uint32_t)each;
        dev_run("cuda_kv_copy", (struct cuda_grid){layers, c.kv_heads, 256, 0}, &a);
        same_bytes(dev_down(on, bytes), kv, bytes, "a copy of %u tokens of dim %u", tokens, c.dim);
        dev_reset();
    }
}

/* --- heads, attention and merge in one kernel --- */

#define DEEP 4200 /* entries of the block table of a long sequence */

/* Some tokens of different sequences, each of which has a block of its own for its position. */
struct decode_case {
    struct head_case heads;
    struct cuda_token *tokens;
    struct cuda_tile *tiles;
    struct cuda_seen *seen;
    uint32_t n_tiles, rows, *table, entries; /* entries: of a token's block table */
    float *q, *k, *v;
    uint8_t *blocks;
    bool sinks; /* each head has a sink score */
};

/* The tiles of token @t, and its block table. */
static void add_token(struct decode_case *c, uint32_t t)
{
    const uint32_t most = c->entries > BLOCKS ? c->entries * KV_BLOCK - 80 : t % 2 ? 1200 : 60;
    const uint32_t pos = rng_below(most), slides = pos > 70 && rng_below(2), table = t * c->entries;
    const uint32_t begin = slides ? pos / 2 : 0, row = c->rows;
    for (uint32_t i = 0; i < c->entries; i++) c->table[table + i] = c->heads.n + rng_below(BLOCKS - c->heads.n);
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
    const bool deep = i % 40 < 2; /* more parts than a merge reads at once */
    struct decode_case c = {.heads = {.kv = random_case(type, i), .n = 1 + rng_below(deep ? 2 : 5)},
                            .sinks = rng_below(4) == 0,
                            .entries = deep ? DEEP : BLOCKS};
    struct head_case *h = &c.heads;
    const bool plain = i % 10 < 2 && i % 3; /* for cuda_plain_* */
    if (plain) h->kv.heads = h->kv.kv_heads * 2 * (1 + rng_below(4));
    const size_t all = (size_t)h->kv.heads * h->kv.dim, each = (size_t)h->kv.kv_heads * h->kv.dim;
    h->rot = rng_below(2) ? h->kv.dim : h->kv.dim / 4 * 2;
    h->bias = rng_below(2), h->norm = rng_below(2), h->rotates = rng_below(4), h->neox = rng_below(2);
    h->warm = rng_below(3) == 0;
    if (plain) h->bias = h->norm = h->warm = h->neox = c.sinks = false, h->rotates = true, h->rot = h->kv.dim;
    h->bq = kv_floats(all), h->bk = kv_floats(all), h->bv = kv_floats(all);
    h->nq = kv_floats(all), h->nk = kv_floats(all), h->warmth = kv_floats(h->n);
    h->cs = kv_floats((size_t)h->n * h->rot), h->sink_cs = kv_floats((size_t)h->n * h->rot);
    c.q = kv_floats(h->n * all), c.k = kv_floats(h->n * each), c.v = kv_floats(h->n * each);
    c.tokens = mem(h->n * sizeof(*c.tokens)), c.seen = mem(h->n * sizeof(*c.seen));
    c.tiles = mem((h->n * (c.entries / 16 + 3) + 1) * sizeof(*c.tiles));
    c.table = mem(h->n * c.entries * sizeof(*c.table));
    c.blocks = mem(BLOCKS * h->kv.stride);
    const float *values = kv_floats(64 * each);
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
    uint32_t most = 0;
    for (uint32_t i = 0; i < c->n_tiles; i++)
        if (c->tiles[i].to - c->tiles[i].from > most) most = c->tiles[i].to - c->tiles[i].from;
    const struct kv_case *y = &c->heads.kv;
    const size_t all = (size_t)c->heads.n * y->heads * y->dim, each = (size_t)c->heads.n * y->kv_heads * y->dim;
    const uint32_t group = y->heads / y->kv_heads;
    struct cuda_decode a = {.heads = heads_args(&c->heads, c->tokens, dev_up(c->blocks, BLOCKS * y->stride))};
    float *q = kv_up(c->q, all), *q_sinks = dev_poisoned(all * sizeof(float));
    a.heads.q = q, a.heads.q_sinks = q_sinks, a.heads.k = kv_up(c->k, each), a.heads.v = kv_up(c->v, each);
    a.attn = (struct cuda_attn){.q = q,
                                .q_sinks = q_sinks,
                                .tiles = dev_up(c->tiles, c->n_tiles * sizeof(*c->tiles)),
                                .seen = dev_up(c->seen, c->heads.n * sizeof(*c->seen)),
                                .table = dev_up(c->table, c->heads.n * c->entries * sizeof(*c->table)),
                                .kv = a.heads.kv,
                                .m = dev_poisoned(c->rows * y->heads * sizeof(float)),
                                .l = dev_poisoned(c->rows * y->heads * sizeof(float)),
                                .o = dev_poisoned(c->rows * y->heads * y->dim * sizeof(float)),
                                .scale = 0.3f,
                                .cap = c->heads.neox ? 30 : 0,
                                .heads = (uint16_t)y->heads,
                                .kv_heads = (uint16_t)y->kv_heads,
                                .dim = (uint16_t)y->dim,
                                .group = (uint16_t)group,
                                .width = (most + KV_BLOCK - 1) / KV_BLOCK * KV_BLOCK};
    a.merge = (struct cuda_merge){.m = a.attn.m,
                                  .l = a.attn.l,
                                  .o = a.attn.o,
                                  .sink_scores = c->sinks ? kv_up(c->heads.bq, y->heads) : NULL,
                                  .seen = a.attn.seen,
                                  .f = dev_poisoned(all * sizeof(float)),
                                  .heads = y->heads,
                                  .dim = y->dim};
    if (y->dim % KERN_BLOCK == 0) a.merge.q = dev_acts(c->heads.n, (size_t)y->heads * y->dim);
    const size_t counters = c->heads.n * y->heads * sizeof(*a.done);
    a.done = dev_up(memset(mem(counters), 0, counters), counters);
    return a;
}

/* One kernel, which is run twice, gives what @a gave in three, which other checks compare with the definition. "plain":
 * if the case is. @rows: of "deep" and "deep_few", whose CTAs share the queries of a KV head if these are more. */
static void same_decode(const struct decode_case *c, const char *which, unsigned shared, const struct cuda_decode *a,
                        uint32_t rows)
{
    const struct kv_case *y = &c->heads.kv;
    const struct cuda_decode b = decode_args(c);
    const uint32_t n = c->heads.n;
    const size_t all = (size_t)n * y->heads * y->dim;
    const float *want = dev_down(a->merge.f, all * sizeof(float));
    char name[48];
    if (!strcmp(which, "plain") && !cuda_is_plain(&b)) return;
    snprintf(name, sizeof(name), "cuda_%s_%s", which, kern_kv_name(y->type));
    if (!strcmp(which, "plain")) snprintf(name, sizeof(name), "cuda_plain_%s_%u", kern_kv_name(y->type), y->dim);
    if (rows) snprintf(name, sizeof(name), "cuda_%s_%u_%u", which, y->dim, rows);
    const uint32_t group = y->heads / y->kv_heads, share = rows && group > rows ? group / rows : 1;
    for (unsigned k = 0; k < 2; k++) {
        const unsigned some = k == c->n_tiles % 2 ? 512 : 128;
        const unsigned threads = rows ? CUDA_DEEP_THREADS(!strcmp(which, "deep_few")) : some;
        struct cuda_deep args = {b, DEEP_SLOTS, 0, share}; /* the others take its first member */
        args.plain = k && cuda_only_rotates(&b.heads);
        args.a.attn.group = (uint16_t)(group / share), args.a.attn.kv_heads = (uint16_t)(y->kv_heads * share);
        if (k && y->dim % 32 == 0) args.a.done = NULL;
        dev_run(name, (struct cuda_grid){c->n_tiles, y->kv_heads * share, threads, shared}, &args);
        const struct cuda_grid merge = {n, y->heads * y->dim / 32, CUDA_MERGE_WARPS * 32, 0};
        if (!args.a.done) dev_run("cuda_merge_deep", merge, &b.merge);
    }
    if (strcmp(which, "plain")) /* it gives only what is quantized */
        same_floats(dev_down(b.merge.f, all * sizeof(float)), want, all, "%s of %u, dim %u heads %u", name, n, y->dim,
                    y->heads);
    if (b.merge.q.q) same_acts(&b.merge.q, want, n, (size_t)y->heads * y->dim, name);
    same_bytes(dev_down(b.heads.kv.mem, BLOCKS * y->stride), dev_down(a->heads.kv.mem, BLOCKS * y->stride),
               BLOCKS * y->stride, "KV of %s, dim %u", name, y->dim);
    const uint32_t *done = dev_down(b.done, n * y->heads * sizeof(*done));
    for (uint32_t k = 0; k < n * y->heads; k++) assert_int_equal(done[k], 0);
}

static void one_decode(enum kern_kv type, unsigned i)
{
    const struct decode_case c = random_decode(type, i);
    const struct kv_case *y = &c.heads.kv;
    const struct cuda_decode a = decode_args(&c);
    const uint32_t n = c.heads.n, group = y->heads / y->kv_heads, wide = (y->dim + 3) / 4 * 4;
    const unsigned shared = (group * (wide + 512 + 48) + 2 * wide) * 4;
    const unsigned half = 16 * (unsigned)y->half, apart = (shared + 128 + c.heads.rot * 4 + 127) / 128 * 128 + half;
    char name[48];
    dev_run("cuda_heads", (struct cuda_grid){n, y->heads + y->kv_heads, 32, y->dim * 4}, &a.heads);
    snprintf(name, sizeof(name), "cuda_attn_few_%s", kern_kv_name(type));
    dev_run(name, (struct cuda_grid){c.n_tiles, y->kv_heads, 512, shared}, &a.attn);
    dev_run("cuda_merge", (struct cuda_grid){n, y->heads, 32, 0}, &a.merge);
    same_decode(&c, "decode", shared, &a, 0);
    if (device.early && apart <= 216 << 10) same_decode(&c, "apart", apart, &a, 0);
    if (device.early && apart + half <= 216 << 10) same_decode(&c, "near", apart + half, &a, 0);
    if (device.early && apart + half <= 216 << 10) same_decode(&c, "plain", apart + half, &a, 0);
    for (uint32_t rows = 2; rows <= 8; rows *= 2)
        if (device.early && type == KERN_KV_F16 && (y->dim == 64 || y->dim == 128) && group <= 8 &&
            (group <= rows || group % rows == 0)) {
            same_decode(&c, "deep_few", CUDA_DEEP_SHARED(y->dim, rows, DEEP_SLOTS), &a, rows);
            if (rows > 2) same_decode(&c, "deep", CUDA_DEEP_SHARED(y->dim, rows, DEEP_SLOTS), &a, rows);
        }
    dev_reset();
}

void check_cuda_decode(void **state)
{
    rng_seed(1);
    for (unsigned i = 0; i < 80; i++) one_decode((enum kern_kv)(uintptr_t)*state, i);
}

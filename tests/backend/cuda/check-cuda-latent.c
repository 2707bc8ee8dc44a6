/* SPDX-License-Identifier: MIT */
/* Latent attention: heads between their products and attention, attention with its merge, and what a token gets. */
#include "kernels/cuda/latent-args.h"
#include "kernels/kv.h"
#include "tests/backend/cuda/check-cuda.h"
#include <stdio.h>
#include <string.h>

#define WIDEST 640 /* values of K */
#define EPS    1e-6f

struct latent_case {
    enum kern_kv type;
    uint32_t heads, nope, rope, rank, apart, n;
    size_t block; /* bytes */
};

static struct latent_case random_case_of(enum kern_kv type, unsigned i, uint32_t n)
{
    static const uint32_t ranks[] = {512, 64, 32, 256, 100, 36}, ropes[] = {64, 16, 2, 10};
    struct latent_case c = {.type = type, .heads = 1 + rng_below(i % 3 ? 40 : 6), .n = n};
    c.rank = ranks[i % 6], c.rope = ropes[i % 4], c.nope = 32 * (1 + rng_below(4));
    c.apart = (n + 7) / 8 * 8 + 8 * rng_below(2);
    c.block = kern_kv_bytes(type, c.rank + c.rope);
    return c;
}

static struct cuda_kv latent_kv(const struct latent_case *c, void *mem)
{
    return (struct cuda_kv){mem, c->block, (uint32_t)c->block, (uint32_t)c->block};
}

/* --- heads --- */

static void want_k(const struct latent_case *c, float *k, const float *norm, const float *cs, uint8_t *block,
                   uint32_t slot, bool rotates, bool neox)
{
    ref->rmsnorm(k, k, norm, c->rank, EPS);
    if (rotates) ref->rope(k + c->rank, 1, c->rope, c->rope, cs, neox);
    ref->kv_store[c->type](block, NULL, slot, k, NULL, c->rank + c->rope);
}

static void one_heads(const struct latent_case *c, bool rotates, bool neox, bool quantized)
{
    const size_t width = c->nope + c->rope, dim = c->rank + c->rope, nq = c->n * c->heads * width;
    const size_t rows = (size_t)c->heads * c->apart;
    float *q = kv_floats(nq), *k = kv_floats(c->n * dim), *nope = mem(rows * c->nope * sizeof(float));
    float *sinks = mem(nq * sizeof(float));
    const float *norm = kv_floats(c->rank), *cs = kv_floats(c->n * c->rope), *sink_cs = kv_floats(c->n * c->rope);
    struct cuda_token *tokens = mem(c->n * sizeof(*tokens));
    uint8_t *blocks = mem(BLOCKS * c->block);
    for (uint32_t t = 0; t < c->n; t++)
        tokens[t] = (struct cuda_token){.pos = t * 37 + rng_below(30), .block = {0, t * 5}, .slides = rng_below(2)};
    struct cuda_latent_heads a = {.q = kv_up(q, nq),
                                  .q_sinks = dev_poisoned(nq * sizeof(float)),
                                  .k = kv_up(k, c->n * dim),
                                  .k_norm = kv_up(norm, c->rank),
                                  .cs = kv_up(cs, c->n * c->rope),
                                  .sink_cs = kv_up(sink_cs, c->n * c->rope),
                                  .token = dev_up(tokens, c->n * sizeof(*tokens)),
                                  .kv = latent_kv(c, dev_up(blocks, BLOCKS * c->block)),
                                  .f = dev_poisoned(rows * c->nope * sizeof(float)),
                                  .eps = EPS,
                                  .heads = c->heads,
                                  .apart = c->apart,
                                  .nope = c->nope,
                                  .rope = c->rope,
                                  .rank = c->rank,
                                  .group = 1,
                                  .type = (uint8_t)c->type,
                                  .rotates = rotates,
                                  .neox = neox};
    if (quantized) a.rows = dev_acts(rows, c->nope), a.rows.wide = 0;
    dev_run("cuda_latent_heads", (struct cuda_grid){c->n, (c->heads + 8) / 8, 256, (unsigned)(dim * 4)}, &a);
    for (uint32_t t = 0; t < c->n; t++) {
        want_k(c, k + t * dim, norm, cs + t * c->rope, blocks + t * 5 * c->block, tokens[t].pos % KV_BLOCK, rotates,
               neox);
        for (uint32_t h = 0; h < c->heads; h++) {
            const size_t at = (t * c->heads + h) * width;
            memcpy(nope + (h * c->apart + t) * c->nope, q + at, c->nope * sizeof(*q));
            if (tokens[t].slides) memcpy(sinks + at + c->nope, q + at + c->nope, c->rope * sizeof(*q));
            if (tokens[t].slides && rotates)
                ref->rope(sinks + at + c->nope, 1, c->rope, c->rope, sink_cs + t * c->rope, neox);
            if (rotates) ref->rope(q + at + c->nope, 1, c->rope, c->rope, cs + t * c->rope, neox);
        }
    }
    same_bytes(dev_down(a.kv.mem, BLOCKS * c->block), blocks, BLOCKS * c->block, "K of rank %u", c->rank);
    same_floats(dev_down(a.q, nq * 4), q, nq, "queries, rope %u", c->rope);
    same_floats(dev_down(a.q_sinks, nq * 4), sinks, nq, "queries for sinks, rope %u", c->rope);
    same_floats(dev_down(a.f, rows * c->nope * 4), nope, rows * c->nope, "rows by head, nope %u", c->nope);
    for (uint32_t h = 0; quantized && h < c->heads; h++) { /* rows between the heads' are not written */
        struct cuda_acts own = a.rows;
        int8_t *codes = mem(c->nope);
        float d[2 * 8];
        int16_t s[2 * 8];
        const int8_t *got = dev_down(own.q + h * c->apart * c->nope, c->n * c->nope);
        for (uint32_t t = 0; t < c->n; t++) {
            ref->quantize(codes, d, s, nope + (h * c->apart + t) * c->nope, c->nope, 1);
            same_bytes(got + t * c->nope, codes, c->nope, "codes of head %u of token %u", h, t);
        }
    }
    dev_reset();
}

void check_cuda_latent_heads(void **state)
{
    rng_seed(1);
    for (unsigned i = 0; i < 48; i++) {
        const struct latent_case c = random_case_of((enum kern_kv)(uintptr_t)*state, i, 1 + rng_below(7));
        one_heads(&c, rng_below(4), rng_below(2), i % 2);
    }
}

/* --- attention --- */

/* A sequence whose last tokens are queries; unseen slots are NaN. */
struct attn_of {
    struct latent_case l;
    uint32_t len, window, sinks; /* window 0: all; else the token sees @sinks positions, too */
    bool warm;
    uint32_t table[BLOCKS];
    uint8_t *blocks;
    const float *q, *q_sinks, *absorbed, *warmth;
};

static void fill_blocks(struct attn_of *c)
{
    const struct latent_case *y = &c->l;
    c->blocks = mem(BLOCKS * y->block);
    memset(c->blocks, 0xff, BLOCKS * y->block);
    for (uint32_t i = 0; i < BLOCKS; i++) c->table[i] = (i * 7 + 3) % BLOCKS;
    for (uint32_t pos = 0; pos < c->len; pos++) {
        float k[WIDEST];
        for (uint32_t d = 0; d < y->rank + y->rope; d++) k[d] = rng_float();
        ref->kv_store[y->type](c->blocks + c->table[pos / KV_BLOCK] * y->block, NULL, pos % KV_BLOCK, k, NULL,
                               y->rank + y->rope);
    }
}

static uint32_t first_seen(const struct attn_of *c, uint32_t pos)
{
    return c->window && pos + 1 > c->window ? pos + 1 - c->window : 0;
}

/* The query of a head as it meets its sinks, or the other keys. */
static void want_query(const struct attn_of *c, uint32_t token, uint32_t head, bool sinks, float *out)
{
    const struct latent_case *y = &c->l;
    const size_t at = ((size_t)token * y->heads + head) * (y->nope + y->rope) + y->nope;
    memcpy(out, c->absorbed + ((size_t)head * y->apart + token) * y->rank, y->rank * sizeof(*out));
    memcpy(out + y->rank, (sinks ? c->q_sinks : c->q) + at, y->rope * sizeof(*out));
    if (c->warm && c->warmth[token] != 1) ref->scale(out, c->warmth[token], y->rank + y->rope);
}

/* A part of what a query sees: [begin, end) of the segment from @from on. */
static void want_part(const struct attn_of *c, const float *q, uint32_t from, uint32_t begin, uint32_t end, float *m,
                      float *l, float *o)
{
    const struct latent_case *y = &c->l;
    const void *k[KV_SEGMENT / KV_BLOCK];
    const uint32_t blocks = (end + KV_BLOCK - 1) / KV_BLOCK;
    for (uint32_t b = 0; b < blocks; b++) k[b] = c->blocks + c->table[from / KV_BLOCK + b] * y->block;
    const struct kern_attn a = {.q = &q,
                                .begin = &begin,
                                .end = &end,
                                .n_q = 1,
                                .dim = y->rank + y->rope,
                                .v_dim = y->rank,
                                .k = k,
                                .n_blocks = blocks,
                                .scale = 0.3f,
                                .m = m,
                                .l = l,
                                .o = o};
    ref->attn[y->type](&a);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* What one query gets, by the definition. */
static void want_attn(const struct attn_of *c, uint32_t token, uint32_t head, float *out)
{
    const uint32_t pos = c->len - c->l.n + token, seen = first_seen(c, pos), rank = c->l.rank;
    float m[8], l[8], o[8 * WIDEST], q[WIDEST];
    size_t parts = 0;
    want_query(c, token, head, true, q);
    for (uint32_t s = 0; seen && s * KV_SEGMENT < c->sinks; s++, parts++)
        want_part(c, q, s * KV_SEGMENT, 0, least(c->sinks - s * KV_SEGMENT, KV_SEGMENT), &m[parts], &l[parts],
                  o + parts * rank);
    want_query(c, token, head, false, q);
    for (uint32_t s = seen / KV_SEGMENT; s <= pos / KV_SEGMENT; s++, parts++) {
        const uint32_t from = s * KV_SEGMENT;
        want_part(c, q, from, seen > from ? seen - from : 0, least(pos + 1 - from, KV_SEGMENT), &m[parts], &l[parts],
                  o + parts * rank);
    }
    ref->attn_merge(out, m, l, 1, o, rank, parts, rank);
}

/* Tiles of up to @most tokens, as the backend makes them: their number. Tokens that slide are alone. */
static uint32_t make_tiles(const struct attn_of *c, uint32_t most, struct cuda_tile *tiles, struct cuda_seen *seen)
{
    uint32_t n = 0, row = 0;
    for (uint32_t t = 0, m; t < c->l.n; t += m) {
        const uint32_t pos = c->len - c->l.n + t, begin = first_seen(c, pos), segment = begin / KV_SEGMENT;
        m = begin ? 1 : least(c->l.n - t, most);
        while (m > 1 && first_seen(c, pos + m - 1)) m--;
        const uint32_t end = pos + m, sinks = begin ? (c->sinks + KV_SEGMENT - 1) / KV_SEGMENT : 0;
        const uint32_t parts = sinks + (end - 1) / KV_SEGMENT - segment + 1;
        for (uint32_t i = 0; i < m; i++) seen[t + i] = (struct cuda_seen){begin, pos + i + 1, row + i * parts, parts};
        row += m * parts;
        for (uint32_t p = 0; p < parts; p++) {
            const bool is_sink = p < sinks;
            const uint32_t from = (is_sink ? p : segment + p - sinks) * KV_SEGMENT, least_pos = begin / 32 * 32;
            tiles[n++] = (struct cuda_tile){.token = t,
                                            .n = m,
                                            .part = p,
                                            .from = is_sink || from > least_pos ? from : least_pos,
                                            .to = least(is_sink ? c->sinks : end, from + KV_SEGMENT),
                                            .sinks = is_sink};
        }
    }
    return n;
}

/* @group: heads of a CTA. */
static void one_attn(struct attn_of c, uint32_t group)
{
    const struct latent_case *y = &c.l;
    const uint32_t width = y->nope + y->rope, dim = y->rank + y->rope, wide = (dim + 3) / 4 * 4;
    const size_t nq = (size_t)y->n * y->heads * width, rows = (size_t)y->heads * y->apart, no = rows * y->rank;
    struct cuda_tile *tiles = mem(y->n * 8 * sizeof(*tiles));
    struct cuda_seen *seen = mem(y->n * sizeof(*seen));
    float *want = mem(no * sizeof(*want));
    c.q = kv_floats(nq), c.q_sinks = kv_floats(nq), c.absorbed = kv_floats(no), c.warmth = kv_floats(y->n);
    fill_blocks(&c);
    for (uint32_t t = 0; t < y->n; t++)
        for (uint32_t h = 0; h < y->heads; h++) want_attn(&c, t, h, want + ((size_t)h * y->apart + t) * y->rank);
    const uint32_t most = group < y->heads ? 1
                          : 16 / y->heads  ? 16 / y->heads
                                           : 1,
                   n = make_tiles(&c, most, tiles, seen);
    const size_t results = (size_t)(seen[y->n - 1].row + seen[y->n - 1].parts * most) * y->heads;
    struct cuda_attn_latent a = {.a = {.q = kv_up(c.q, nq),
                                       .q_sinks = kv_up(c.q_sinks, nq),
                                       .tiles = dev_up(tiles, n * sizeof(*tiles)),
                                       .seen = dev_up(seen, y->n * sizeof(*seen)),
                                       .table = dev_up(c.table, sizeof(c.table)),
                                       .kv = latent_kv(y, dev_up(c.blocks, BLOCKS * y->block)),
                                       .m = dev_poisoned(results * 4),
                                       .l = dev_poisoned(results * 4),
                                       .o = dev_poisoned(results * y->rank * 4),
                                       .scale = 0.3f,
                                       .heads = (uint16_t)y->heads,
                                       .kv_heads = 1,
                                       .dim = (uint16_t)dim,
                                       .group = (uint16_t)group,
                                       .width = KV_SEGMENT},
                                 .absorbed = kv_up(c.absorbed, no),
                                 .warmth = c.warm ? kv_up(c.warmth, y->n) : NULL,
                                 .apart = y->apart,
                                 .nope = y->nope,
                                 .rank = y->rank};
    a.a.kv.each = 0;
    char name[48];
    snprintf(name, sizeof(name), "cuda_attn_latent_%s", kern_kv_name(y->type));
    const uint32_t threads = rng_below(2) ? 256 : 512;
    dev_run(name, (struct cuda_grid){n, (y->heads + group - 1) / group, threads, CUDA_LATENT_SHARED(wide)}, &a);
    struct cuda_merge m = {.m = a.a.m,
                           .l = a.a.l,
                           .o = a.a.o,
                           .seen = a.a.seen,
                           .f = dev_poisoned(no * sizeof(float)),
                           .heads = y->heads,
                           .dim = y->rank,
                           .apart = y->apart};
    if (y->rank % 32 == 0) m.q = dev_acts(rows, y->rank), m.q.wide = 0;
    dev_run("cuda_merge_many", (struct cuda_grid){y->n, (y->heads * y->rank + 1023) / 1024, 256, 0}, &m);
    same_floats(dev_down(m.f, no * sizeof(float)), want, no, "latent attention: rank %u heads %u of %u n %u of %u",
                y->rank, group, y->heads, y->n, c.len);
    for (uint32_t h = 0; m.q.q && h < y->heads; h++) {
        int8_t codes[WIDEST];
        float d[2 * WIDEST / 32];
        int16_t s[2 * WIDEST / 32];
        const int8_t *got = dev_down(m.q.q + (size_t)h * y->apart * y->rank, (size_t)y->n * y->rank);
        for (uint32_t t = 0; t < y->n; t++) {
            ref->quantize(codes, d, s, want + ((size_t)h * y->apart + t) * y->rank, y->rank, 1);
            same_bytes(got + (size_t)t * y->rank, codes, y->rank, "codes of head %u of token %u", h, t);
        }
    }
    dev_reset();
}

void check_cuda_attn_latent(void **state)
{
    rng_seed(1);
    for (unsigned i = 0; i < 36; i++) {
        const uint32_t len = 1 + rng_below(i % 3 ? 1200 : 100);
        struct attn_of c = {.l = random_case_of((enum kern_kv)(uintptr_t)*state, i, 1 + rng_below(len < 7 ? len : 7)),
                            .len = len,
                            .warm = i % 5 == 1};
        if (i % 4 == 2 && len > 60) c.window = 20 + rng_below(len), c.sinks = 1 + rng_below(20);
        one_attn(c, c.l.heads < 16 ? c.l.heads : 16);
        one_attn(c, least(c.l.heads, 4 + rng_below(5)));
    }
}

/* --- values --- */

void check_cuda_latent_join(void **state)
{
    rng_seed(1);
    for (unsigned i = 0; i < 30; i++) {
        const uint32_t n = 1 + rng_below(9), heads = 1 + rng_below(9), apart = (n + 7) / 8 * 8;
        const uint32_t value = i % 2 ? 32 * (1 + rng_below(5)) : 1 + rng_below(50), k = heads * value;
        const size_t all = (size_t)heads * apart * value;
        const float *x = kv_floats(all);
        float *want = mem((size_t)n * k * sizeof(*want));
        struct cuda_latent_join a = {.x = kv_up(x, all),
                                     .f = dev_poisoned((size_t)n * k * sizeof(float)),
                                     .k = k,
                                     .value = value,
                                     .apart = apart};
        if (k % 32 == 0) a.q = dev_acts(n, k);
        for (uint32_t t = 0; t < n; t++)
            for (uint32_t c = 0; c < k; c++)
                want[(size_t)t * k + c] = x[((size_t)(c / value) * apart + t) * value + c % value];
        dev_run("cuda_latent_join", (struct cuda_grid){(k + 1023) / 1024, n, 256, 0}, &a);
        same_floats(dev_down(a.f, (size_t)n * k * sizeof(float)), want, (size_t)n * k, "values of %u heads", heads);
        if (a.q.q) same_acts(&a.q, want, n, k, "values");
        dev_reset();
    }
}

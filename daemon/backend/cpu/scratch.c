/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cpu/cpu.h"
#include "daemon/backend/cpu/memory.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <sys/mman.h>

#define WAVE_ROWS 16384 /* partial results that still fit into a cache */
/* A tile of t <= TILE_ROWS tokens that slide over n sinks and W others sees at most ceil(n / 512) parts of sinks and
 * ceil((W + t - 2) / 512) + 1 of the window; n + W <= ctx. Sink scores are one more. */
#define MORE_PARTS 4

/* Counts bytes in a first run (base NULL), and assigns pointers in a second. */
struct carver {
    uint8_t *base;
    size_t at;
};

static void *carve(struct carver *c, size_t n, size_t size)
{
    void *p = c->base ? c->base + c->at : NULL;
    c->at += kern_align(n * size);
    return p;
}

static uint32_t max(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Room for @rows rows of @k values, or @more rows of @wide values. */
static struct acts carve_acts(struct carver *c, size_t rows, size_t k, size_t more, size_t wide)
{
    const size_t values = max_size(rows * k, more * wide);
    const size_t blocks = max_size(rows * (k / KERN_BLOCK), more * (wide / KERN_BLOCK));
    struct acts a = {.k = (uint32_t)k};
    a.f = carve(c, values, sizeof(*a.f));
    a.q = carve(c, values, sizeof(*a.q));
    a.d = carve(c, blocks * 2, sizeof(*a.d));
    a.s = carve(c, blocks * 2, sizeof(*a.s));
    return a;
}

/* Of all tokens: that of a layer without experts, or the shared expert. */
static uint32_t widest_feed_forward(const struct hparams *y)
{
    for (uint32_t l = y->mtp.first; l < y->n_layers; l++)
        if (!hparams_mixes(y, l) || y->desc->experts.beside)
            return max(y->ffn, y->experts.shared_ffn); /* ffn: of the widest layer */
    return y->experts.shared_ffn;
}

static void lay_out_recurrent(struct recurrent_scratch *s, struct carver *c, const struct hparams *y, size_t n)
{
    for (uint32_t i = 0; i < RECURRENT_INPUTS; i++) s->in[i] = carve(c, n * y->recurrent.in[i], sizeof(float));
    s->out = carve_acts(c, n, y->recurrent.out, 0, 0);
    s->runs = carve(c, n, sizeof(*s->runs));
}

static void lay_out_mla(struct mla_scratch *s, struct carver *c, const struct hparams *y, size_t n)
{
    s->low = carve_acts(c, n, y->mla.q_rank, 0, 0);
    s->nope = carve_acts(c, n * y->heads, y->mla.nope, 0, 0);
    s->absorbed = carve(c, n * y->heads * y->mla.kv_rank, sizeof(float));
    s->latent = carve_acts(c, n * y->heads, y->mla.kv_rank, 0, 0);
    s->value = carve(c, n * y->heads * y->mla.value, sizeof(float));
    s->groups = carve(c, y->heads, sizeof(*s->groups));
}

static void lay_out_layers(struct scratch *s, struct carver *c, const struct hparams *y, size_t n, size_t threads)
{
    const struct hparams_altup *a = &y->altup;
    const size_t all = (size_t)y->n_layers * y->per_layer;
    s->embedding.all = carve(c, n * all, sizeof(float));
    s->embedding.row = carve(c, threads * all, sizeof(float));
    s->embedding.gate = carve_acts(c, n, y->per_layer, 0, 0);
    s->up = carve(c, a->streams ? n * y->ffn : 0, sizeof(float));
    s->altup.streams = carve(c, n * a->streams * y->dim, sizeof(float));
    s->altup.rows = carve(c, a->streams ? threads * 2 * y->dim : 0, sizeof(float));
    s->altup.mixed = carve(c, threads * a->streams * y->dim, sizeof(float));
    s->altup.low = carve_acts(c, n, a->rank, 0, 0);
    s->altup.side = carve(c, a->streams ? n * y->dim : 0, sizeof(float));
}

static void lay_out(struct scratch *s, struct carver *c, const struct hparams *y, size_t n, size_t threads)
{
    const struct hparams_heads other = hparams_heads_of(y, true);
    const size_t kv = max(y->kv_heads * y->head_dim, other.kv_heads * other.head_dim);
    const size_t heads = max(y->kv_heads, other.kv_heads), tile_rows = s->attn.tile_rows, rows = n * y->experts.used;
    uint32_t ffn = widest_feed_forward(y);
    s->tokens = carve(c, n, sizeof(*s->tokens));
    s->x = carve(c, n * y->dim, sizeof(float));
    s->beside = carve(c, y->parallel || y->desc->experts.beside ? n * y->dim : 0, sizeof(float));
    s->pairs = carve_acts(c, y->mtp.first ? n : 0, (size_t)2 * y->dim, 0, 0);
    s->h = carve_acts(c, n, y->dim, 0, 0);
    s->q = carve(c, n * hparams_queries(y), sizeof(float));
    s->k = carve(c, n * kv, sizeof(float));
    s->v = carve(c, hparams_values(y) ? n * kv : 0, sizeof(float));
    s->q_gate = carve(c, y->desc->attention.q_gate ? n * hparams_queries(y) : 0, sizeof(float));
    s->att = carve_acts(c, n, hparams_attended(y), 0, 0);
    lay_out_mla(&s->mla, c, y, n);
    s->gated = carve_acts(c, n, ffn, rows, y->experts.ffn);
    s->columns = carve(c, threads * 2 * GATED_VALUES, sizeof(float));
    s->moe.route = carve(c, n * y->experts.n, sizeof(float));
    s->moe.shared = carve(c, y->experts.shared_ffn ? n : 0, sizeof(float));
    s->moe.chosen = carve(c, rows, sizeof(*s->moe.chosen));
    s->moe.share = carve(c, rows, sizeof(float));
    s->moe.row = carve(c, rows, sizeof(*s->moe.row));
    s->moe.source = carve(c, rows, sizeof(*s->moe.source));
    s->moe.groups = carve(c, y->experts.n, sizeof(*s->moe.groups));
    s->moe.of = carve(c, y->experts.n, sizeof(*s->moe.of));
    s->moe.mix = carve_acts(c, rows, y->dim, 0, 0);
    for (uint32_t i = 0; i < hparams_ropes(y); i++) s->cs[i] = carve(c, n * hparams_rotated(y, i), sizeof(float));
    s->sink_cs = carve(c, n * y->rope_dim, sizeof(float));
    s->attn.m = carve(c, s->attn.rows, sizeof(float));
    s->attn.l = carve(c, s->attn.rows, sizeof(float));
    s->attn.o = carve(c, (size_t)s->attn.rows * s->attn.widest, sizeof(float));
    s->attn.tiles = carve(c, n, sizeof(*s->attn.tiles));
    s->attn.items = carve(c, s->attn.rows, sizeof(*s->attn.items));
    s->attn.left = carve(c, n * heads, sizeof(*s->attn.left));
    s->attn.turned = carve(c, threads * tile_rows * s->attn.widest, sizeof(float));
    s->attn.query = carve(c, threads * tile_rows, sizeof(*s->attn.query));
    s->attn.begin = carve(c, threads * tile_rows, sizeof(uint32_t));
    s->attn.end = carve(c, threads * tile_rows, sizeof(uint32_t));
    s->attn.slope = carve(c, threads * tile_rows, sizeof(float));
    s->attn.at = carve(c, threads * tile_rows, sizeof(int32_t));
    lay_out_recurrent(&s->recurrent, c, y, n);
    lay_out_layers(s, c, y, n, threads);
}

int scratch_init(struct scratch *s, const struct hparams *y, uint32_t tokens, uint32_t ctx, uint32_t threads)
{
    struct carver c = {0};
    const uint32_t group = y->heads / y->kv_heads, other = y->heads / hparams_heads_of(y, true).kv_heads;
    const uint32_t segments = (ctx + KV_SEGMENT - 1) / KV_SEGMENT;
    const uint64_t longest = (uint64_t)y->heads * (segments + MORE_PARTS);
    *s = (struct scratch){.attn.widest = hparams_widest(y),
                          .attn.tile_rows = max(cpu_tile_tokens(group) * group, cpu_tile_tokens(other) * other)};
    if (longest > UINT32_MAX)
        return error_say(-ENOMEM, "a context of %u is too long for %u attention heads", ctx, y->heads);
    /* A wave holds at least one token of the longest context. */
    s->attn.rows = max((uint32_t)longest, WAVE_ROWS);
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

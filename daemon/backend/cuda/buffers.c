/* SPDX-License-Identifier: MIT */
/* Memory of the device: kernels, buffers of a batch, KV blocks. */
#include "daemon/backend/cuda/cuda.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <stdlib.h>

#define PAD         128                 /* rows of quantized activations come in so many */
#define LOGIT_BYTES ((size_t)32 << 20)  /* of rows of logits that are computed at once, but at least */
#define LOGIT_ROWS  64                  /* so many rows */
#define ATTN_BYTES  ((size_t)128 << 20) /* of partial results, unless a long context needs more */
#define TILE_TOKENS 32                  /* of tile_tokens() */
#define MORE_PARTS  4                   /* as in daemon/backend/cpu/scratch.c */

/* Counts bytes in a first run (base NULL), and assigns pointers in a second. */
struct carver {
    uint8_t *base;
    size_t at;
};

static void *carve(struct carver *c, size_t n, size_t size)
{
    void *p = c->base ? c->base + c->at : NULL;
    c->at += (n * size + 255) / 256 * 256;
    return p;
}

static struct cuda_acts carve_acts(struct carver *c, size_t rows, size_t k)
{
    struct cuda_acts a = {.ld = (uint32_t)rows};
    a.q = carve(c, rows * k, sizeof(uint16_t)); /* wide ones are f16 */
    a.d = carve(c, k / KERN_BLOCK * rows * 2, sizeof(*a.d));
    a.s = carve(c, k / KERN_BLOCK * rows * 2, sizeof(*a.s));
    return a;
}

/* What only models with embeddings of tokens for each layer, or with AltUp, have. */
static void lay_out_layers(struct cuda_buffers *b, struct carver *c, const struct hparams *s, size_t n)
{
    const size_t all = (size_t)s->n_layers * s->per_layer, f = sizeof(float);
    if (s->per_layer) {
        b->layers.rows = carve(c, n * all, f);
        b->layers.e = carve(c, n * all, f);
        b->layers.gate = carve(c, n * s->per_layer, f);
        b->layers.gate_acts = carve_acts(c, n, s->per_layer);
    }
    if (!s->altup.streams) return;
    b->altup.streams = carve(c, n * s->altup.streams * s->dim, f);
    b->altup.side = carve(c, n * s->dim, f);
    b->altup.low = carve(c, n * s->altup.rank, f);
    b->altup.low_acts = carve_acts(c, n, s->altup.rank);
}

/* What only models with experts have. */
static void lay_out_experts(struct cuda_expert_buffers *b, struct carver *c, const struct hparams *s, size_t n)
{
    const size_t choices = n * s->experts.used, rows = cuda_expert_rows(s, n), f = sizeof(float);
    if (!s->experts.n) return;
    b->route = carve(c, n * s->experts.n, f);
    b->shared = carve(c, n, f);
    b->chosen = carve(c, choices, sizeof(*b->chosen));
    b->share = carve(c, choices, f);
    b->row = carve(c, choices, sizeof(*b->row));
    b->tiles = carve(c, cuda_expert_tiles(s, n), sizeof(*b->tiles));
    b->mix = carve(c, rows * s->dim, f);
    b->mix_acts = carve_acts(c, rows, s->dim);
    b->gate = carve(c, rows * s->experts.ffn, f);
    b->up = carve(c, rows * s->experts.ffn, f);
    b->gated_acts = carve_acts(c, rows, s->experts.ffn);
}

/* What only models with recurrent layers have. */
static void lay_out_states(struct cuda_state_buffers *b, struct carver *c, const struct hparams *s, size_t n)
{
    const struct hparams_recurrent *x = &s->recurrent;
    const size_t f = sizeof(float);
    if (!x->taps) return;
    for (uint32_t i = 0; i < RECURRENT_INPUTS; i++) b->in[i] = carve(c, n * x->in[i], f);
    b->conv = carve(c, n * x->channels, f);
    b->out = carve(c, n * x->out, f);
    b->rows = carve(c, n * x->out, f);
    b->out_acts = carve_acts(c, n, x->out);
}

/* What only models with latent attention have. */
static void lay_out_latent(struct cuda_latent_buffers *b, struct carver *c, const struct hparams *s, size_t n)
{
    const struct hparams_mla *m = &s->mla;
    const size_t rows = n * s->heads, f = sizeof(float);
    if (!m->kv_rank) return;
    b->low = carve(c, n * m->q_rank, f);
    b->low_acts = carve_acts(c, n, m->q_rank);
    b->parts = carve(c, rows * (m->nope > m->value ? m->nope : m->value), f);
    b->part_acts = carve_acts(c, rows, m->nope);
    b->absorbed = carve(c, rows * m->kv_rank, f);
    b->acts = carve_acts(c, rows, m->kv_rank);
}

/* Values that a token's heads get from attention. */
static size_t attended(const struct hparams *s)
{
    return s->mla.kv_rank ? (size_t)s->heads * s->mla.kv_rank : hparams_queries(s);
}

static void lay_out(struct cuda_buffers *b, struct carver *c, const struct hparams *s, size_t n, size_t attn_rows,
                    size_t logit_rows)
{
    const struct hparams_heads other = hparams_heads_of(s, true);
    const size_t kv = (size_t)s->kv_heads * s->head_dim, window = (size_t)other.kv_heads * other.head_dim;
    const size_t queries = hparams_queries(s), given = hparams_attended(s), f = sizeof(float);
    const size_t ffn = s->ffn > s->experts.shared_ffn ? s->ffn : s->experts.shared_ffn;
    b->x = carve(c, n * s->dim, f);
    b->kept = carve(c, n * s->dim, f);
    b->h = carve(c, n * s->dim, f);
    b->h_acts = carve_acts(c, n, s->dim);
    b->q = carve(c, n * queries, f);
    b->q_sinks = carve(c, n * queries, f);
    b->k = carve(c, n * (kv > window ? kv : window), f);
    b->v = carve(c, s->mla.kv_rank ? 0 : n * (kv > window ? kv : window), f);
    b->att = carve(c, n * given, f);
    b->att_acts = carve_acts(c, n, given);
    b->gate = carve(c, n * ffn, f);
    b->up = carve(c, n * ffn, f);
    b->beside = carve(c, s->parallel || s->desc->experts.beside ? n * s->dim : 0, f);
    b->q_gate = carve(c, s->desc->attention.q_gate ? n * queries : 0, f);
    lay_out_layers(b, c, s, n);
    lay_out_experts(&b->moe, c, s, n);
    lay_out_states(&b->states, c, s, n);
    lay_out_latent(&b->latent, c, s, n);
    b->pairs = carve(c, s->mtp.first ? n * 2 * s->dim : 0, f);
    if (s->mtp.first) b->pair_acts = carve_acts(c, n, (size_t)2 * s->dim);
    b->gated_acts = carve_acts(c, n, ffn);
    b->m = carve(c, attn_rows * s->heads, f);
    b->l = carve(c, attn_rows * s->heads, f);
    b->o = carve(c, attn_rows * attended(s), f);
    b->logits = carve(c, logit_rows * s->vocab, f);
    b->done = carve(c, n * s->heads + logit_rows, sizeof(*b->done));
    b->row_done = b->done ? b->done + n * s->heads : NULL;
    b->tops = carve(c, logit_rows * cuda_divide(s->vocab, CUDA_LARGEST), sizeof(*b->tops));
    b->best = carve(c, logit_rows, sizeof(*b->best));
}

/* Tokens of a tile of attention for which there is room in any case. */
static uint32_t tile_tokens(const struct hparams *s)
{
    if (!s->mla.kv_rank) return TILE_TOKENS;
    return s->heads < CUDA_FEW_ROWS ? CUDA_FEW_ROWS / s->heads : 1; /* the results of a token are many */
}

static size_t padded(uint32_t tokens)
{
    return ((size_t)tokens + PAD - 1) / PAD * PAD;
}

size_t cuda_buffers_bytes(const struct hparams *s, uint32_t tokens, uint32_t ctx, uint32_t *attn_rows,
                          uint32_t *logit_rows)
{
    struct cuda_buffers b;
    struct carver c = {0};
    const size_t parts = ctx / KV_SEGMENT + MORE_PARTS, each = (attended(s) + 2 * s->heads + 1) * sizeof(float);
    const size_t least = parts * tile_tokens(s);
    *attn_rows = (uint32_t)(ATTN_BYTES / each > least ? ATTN_BYTES / each : least);
    *logit_rows = (uint32_t)(LOGIT_BYTES / (s->vocab * sizeof(float)));
    if (*logit_rows < LOGIT_ROWS) *logit_rows = LOGIT_ROWS;
    if (*logit_rows > tokens) *logit_rows = tokens;
    lay_out(&b, &c, s, padded(tokens), *attn_rows, *logit_rows);
    return c.at;
}

static int clear_counters(const struct cuda *c)
{
    const size_t heads = padded(c->host->base.config.batch_tokens) * c->host->base.hparams.heads,
                 bytes = (heads + c->logit_rows) * sizeof(*c->buf.done);
    void *zeros = calloc(1, bytes);
    if (!zeros) return error_say(-ENOMEM, "out of memory for the CUDA backend");
    int r = cuda_upload(&c->device, c->buf.done, zeros, bytes);
    if (!r) r = cuda_wait(&c->device);
    free(zeros);
    return r;
}

int cuda_init_buffers(struct cuda *c)
{
    const struct backend *b = &c->host->base;
    const uint32_t tokens = b->config.batch_tokens;
    const size_t bytes = cuda_buffers_bytes(&b->hparams, tokens, b->config.ctx, &c->attn_rows, &c->logit_rows);
    int r = cuda_alloc(&c->device, &c->buf.mem, bytes, "the buffers of a step");
    if (r) return r;
    struct carver at = {c->buf.mem, 0};
    lay_out(&c->buf, &at, &b->hparams, padded(tokens), c->attn_rows, c->logit_rows);
    r = clear_counters(c);
    cuda_take_kv(c);
    for (uint32_t g = 0; !r && g < b->hparams.n_groups; g++) {
        struct cuda_kv_part *kv = &c->kv[g];
        const size_t all = kv->layers * c->host->kv[g].blocks * kv->stride;
        if (all) r = cuda_alloc(&c->device, (void **)&kv->mem, all, "the KV pool");
    }
    if (r || c->next) return r;
    r = cuda_alloc_host(&c->device, (void **)&c->best, c->logit_rows * sizeof(*c->best));
    /* without pinned memory only speed is lost */
    if (!r &&
        cuda_alloc_host(&c->device, (void **)&c->staging, (size_t)c->logit_rows * b->hparams.vocab * sizeof(float)))
        c->staging = NULL;
    return r;
}

int cuda_init_batch(struct cuda_backend *x)
{
    const uint32_t tokens = x->host.base.config.batch_tokens;
    x->tables = calloc(tokens, KV_GROUPS_MAX * sizeof(*x->tables));
    bool none = !x->tables;
    for (uint32_t v = 0; v < CUDA_VIEWS; v++) {
        x->views[v].waves = calloc(tokens, sizeof(*x->views[v].waves));
        none |= !x->views[v].waves;
    }
    if (x->n > 1) {
        x->pieces.part = calloc(tokens, sizeof(*x->pieces.part));
        x->pieces.saves = calloc(tokens, sizeof(*x->pieces.saves));
        none |= !x->pieces.part || !x->pieces.saves;
    }
    for (uint32_t i = 0; i < x->n; i++) x->devices[i].views = x->views, x->devices[i].tables = x->tables;
    return none ? error_say(-ENOMEM, "out of memory for the CUDA backend") : 0;
}

void cuda_fini_batch(struct cuda_backend *x)
{
    free(x->tables);
    free(x->pieces.part);
    free(x->pieces.saves);
    for (uint32_t v = 0; v < CUDA_VIEWS; v++) free(x->views[v].waves);
}

void cuda_fini_buffers(struct cuda *c)
{
    if (!c->device.context) return;
    cuda_free(&c->device, c->buf.mem);
    cuda_fini_adapters(c);
    for (uint32_t g = 0; g < KV_GROUPS_MAX; g++) cuda_free(&c->device, c->kv[g].mem);
    cuda_free(&c->device, c->notes.device);
    if (!c->first) cuda_free_host(&c->device, c->notes.host);
    cuda_free_host(&c->device, c->staging);
    cuda_free_host(&c->device, c->best);
}

/* --- kernels --- */

int cuda_find_kernels(struct cuda *c)
{
    const struct cuda_named all[] = {{&c->kern.quantize, "cuda_quantize"},
                                     {&c->kern.gated, "cuda_gated"},
                                     {&c->kern.logits, "cuda_logits"},
                                     {&c->kern.largest, "cuda_largest"},
                                     {&c->kern.heads, "cuda_heads"},
                                     {&c->kern.heads_many, "cuda_heads_many"},
                                     {&c->kern.heads_plain, "cuda_heads_plain"},
                                     {&c->kern.kv_copy, "cuda_kv_copy"},
                                     {&c->kern.merge, "cuda_merge"},
                                     {&c->kern.merge_many, "cuda_merge_many"},
                                     {&c->kern.merge_deep, "cuda_merge_deep"}};
    int r = cuda_find_norms(c);
    if (!r) r = cuda_kernels(&c->device, all, sizeof(all) / sizeof(*all), 0);
    for (int t = 0; !r && t < KERN_TYPES; t++) r = cuda_kind(&c->device, &c->kern.kinds[t], (enum kern_type)t);
    if (!r) r = cuda_find_variants(c);
    if (!r) r = cuda_find_experts(c);
    if (!r) r = cuda_find_states(c);
    return r ? r : cuda_find_attention(c);
}

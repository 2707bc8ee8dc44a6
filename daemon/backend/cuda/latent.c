/* SPDX-License-Identifier: MIT */
/*
 * Latent attention, as daemon/backend/cpu/mla.c has it. The products with the heads' matrices are those of stacks, as
 * of experts, whose rows are sorted by head: row h * apart + i is head h of token i.
 */
#include "daemon/backend/cuda/cuda.h"
#include "kernels/cuda/latent-args.h"

#define THREADS     256
#define WARPS       8
#define FEW_TOKENS  16 /* up to so many, tiles of the heads' products are small */
#define FLOAT_ROWS  16 /* of a tile of float types */
#define LEAST_HEADS 4  /* of a CTA of attention, where there are few tiles */

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static const struct hparams_mla *mla_of(const struct cuda_pass *p)
{
    return &p->c->host->base.hparams.mla;
}

/* Rows of a head. */
static uint32_t apart(const struct cuda_pass *p)
{
    return cuda_divide(p->cpu.n, CUDA_ROW_ALIGN) * CUDA_ROW_ALIGN;
}

/* Shared memory of attention. */
static unsigned attn_bytes(const struct hparams *s)
{
    return CUDA_LATENT_SHARED(cuda_divide(s->head_dim, 4) * 4);
}

int cuda_find_latent(struct cuda *c)
{
    const struct hparams *s = &c->host->base.hparams;
    if (!s->mla.kv_rank) return 0;
    int r = cuda_kernel_of(&c->device, &c->kern.latent.attn, attn_bytes(s), "cuda_attn_latent_%s",
                           kern_kv_name(c->host->base.config.kv_type));
    if (!r) r = cuda_kernel(&c->device, &c->kern.latent.heads, "cuda_latent_heads", 0);
    if (!r) r = cuda_kernel(&c->device, &c->kern.latent.join, "cuda_latent_join", 0);
    for (int t = 0; !r && t < KERN_TYPES; t++) r = cuda_tile_kinds(&c->device, &c->kern.kinds[t], (enum kern_type)t);
    return r;
}

uint32_t cuda_latent_products(const struct cuda_pass *p, struct product set[CUDA_PRODUCTS])
{
    const struct cuda *c = p->c;
    const struct layer *w = p->cpu.w;
    set[0] = (struct product){&w->k, c->buf.k};
    set[1] = mla_of(p)->q_rank ? (struct product){&w->mla.q_a, c->buf.latent.low} : (struct product){&w->q, c->buf.q};
    return 2;
}

/* The product @y of @n rows of each head with the head's matrix. */
static int multiply_heads(const struct cuda_pass *p, const struct product *y, uint32_t n, const float *f,
                          const struct cuda_acts *acts)
{
    const struct cuda *c = p->c;
    const bool plain = cuda_some_plain(y, 1), large = !plain && n > FEW_TOKENS;
    struct cuda_group a = {.m = {.f = f, .x = *acts},
                           .apart = apart(p),
                           .most = plain   ? FLOAT_ROWS
                                   : large ? CUDA_TILE_ROWS
                                           : CUDA_ROW_ALIGN};
    cuda_take_products(p, y, 1, &a.m);
    a.m.n = n;
    return cuda_multiply_tiles(&c->device, &c->kern.kinds[y->m->type], &a,
                               c->host->base.hparams.heads * cuda_divide(n, a.most), large);
}

/* buf.latent.low -> buf.q */
static int expand_queries(const struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    const struct product q = {&p->cpu.w->q, c->buf.q};
    struct cuda_norm norm = {.x = c->buf.latent.low,
                             .w = cuda_weight(c, p->cpu.w->q_norm),
                             .eps = s->rms_eps,
                             .residual = 1,
                             .k = s->mla.q_rank};
    if (cuda_alone(p, &q, 1)) return cuda_multiply_alone(p, &q, 1, &(struct cuda_one){.norm = norm});
    if (cpu_quantized(&q, 1)) norm.q = cuda_acts_of(p, c->buf.latent.low_acts);
    if (cuda_reads_plain(p, &q, 1)) norm.f = c->buf.latent.low;
    int r = cuda_start_norm(c, p->n, &norm);
    return r ? r : cuda_products(p, &q, 1, c->buf.latent.low, &c->buf.latent.low_acts);
}

/* K -> its blocks, and the queries' parts that are not rotated -> rows by head, for the product @expand. */
static int split_heads(const struct cuda_pass *p, const struct product *expand)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    struct cuda_latent_heads a = {.q = c->buf.q,
                                  .q_sinks = p->slides ? c->buf.q_sinks : NULL,
                                  .k = c->buf.k,
                                  .k_norm = cuda_weight(c, p->cpu.w->k_norm),
                                  .cs = p->cs[0],
                                  .sink_cs = p->sink_cs,
                                  .token = cuda_note(c, p->tokens),
                                  .kv = cuda_kv_layer(c, p->cpu.group, p->cpu.group_layer),
                                  .eps = s->rms_eps,
                                  .heads = s->heads,
                                  .apart = apart(p),
                                  .nope = s->mla.nope,
                                  .rope = s->mla.rope,
                                  .rank = s->mla.kv_rank,
                                  .group = (uint8_t)p->cpu.group,
                                  .type = (uint8_t)c->host->base.config.kv_type,
                                  .rotates = hparams_rotates(s, p->cpu.layer),
                                  .neox = s->desc->rope.neox};
    if (cpu_quantized(expand, 1))
        a.rows = c->buf.latent.part_acts;
    else
        a.f = c->buf.latent.parts;
    return cuda_launch(&c->device, c->kern.latent.heads,
                       (struct cuda_grid){p->n, cuda_divide(s->heads + 1, WARPS), WARPS * CUDA_WARP,
                                          s->head_dim * (unsigned)sizeof(float)},
                       &a);
}

int cuda_place_latent(const struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct product expand = {&p->cpu.w->mla.k_b, c->buf.latent.absorbed};
    int r = mla_of(p)->q_rank ? expand_queries(p) : 0;
    if (!r) r = split_heads(p, &expand);
    return r ? r : multiply_heads(p, &expand, p->n, c->buf.latent.parts, &c->buf.latent.part_acts);
}

/* Query heads of a CTA: fewer where else multiprocessors would have nothing to do. */
static uint32_t heads_of_cta(const struct cuda_pass *p, const struct cuda_wave *w)
{
    const uint32_t heads = p->c->host->base.hparams.heads;
    if (heads * 2 <= w->rows) return heads; /* the largest tile has several tokens */
    uint32_t n = CUDA_LATENT_ROWS;
    while (n > LEAST_HEADS && w->n_tiles * cuda_divide(heads, n) < (uint32_t)p->c->device.processors) n /= 2;
    return least(heads, n);
}

int cuda_attend_latent(const struct cuda_pass *p, const struct cuda_attn *attn, const struct cuda_wave *w)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    struct cuda_attn_latent a = {.a = *attn,
                                 .absorbed = c->buf.latent.absorbed,
                                 .warmth = s->temperature.scale != 0 ? cuda_note(c, p->warmth) : NULL,
                                 .apart = apart(p),
                                 .nope = s->mla.nope,
                                 .rank = s->mla.kv_rank};
    a.a.group = (uint16_t)heads_of_cta(p, w);
    a.a.kv.each = 0; /* all heads have the same K */
    const uint32_t ctas = cuda_divide(s->heads, a.a.group);
    /* two CTAs on a multiprocessor have registers for 256 threads each; one that is alone is faster with more */
    const unsigned threads = w->n_tiles * ctas > (uint32_t)c->device.processors ? THREADS : 2 * THREADS;
    return cuda_launch(&c->device, c->kern.latent.attn, (struct cuda_grid){w->n_tiles, ctas, threads, attn_bytes(s)},
                       &a);
}

void cuda_merge_latent(const struct cuda_pass *p, struct cuda_merge *a)
{
    const struct cuda *c = p->c;
    const struct product reduce = {&p->cpu.w->mla.v_b, NULL};
    a->dim = mla_of(p)->kv_rank;
    a->apart = apart(p);
    a->f = NULL;
    a->q = (struct cuda_acts){.q = NULL};
    if (cpu_quantized(&reduce, 1))
        a->q = c->buf.latent.acts;
    else
        a->f = c->buf.latent.absorbed;
}

int cuda_latent_values(const struct cuda_pass *p, const struct product *out)
{
    const struct cuda *c = p->c;
    const struct product reduce = {&p->cpu.w->mla.v_b, c->buf.latent.parts};
    struct cuda_latent_join join = {
        .x = c->buf.latent.parts, .k = out->m->k, .value = mla_of(p)->value, .apart = apart(p)};
    if (cpu_quantized(out, 1)) join.q = cuda_acts_of(p, c->buf.att_acts);
    if (cuda_reads_plain(p, out, 1)) join.f = c->buf.att;
    int r = multiply_heads(p, &reduce, p->n, c->buf.latent.absorbed, &c->buf.latent.acts);
    return r ? r : cuda_launch(&c->device, c->kern.latent.join, cuda_rows_grid(join.k, p->n), &join);
}

/* SPDX-License-Identifier: MIT */
/* The embeddings of tokens for each layer, as daemon/backend/cpu/layer-embedding.c has them: the host reads the table,
 * the device does the rest. */
#include "daemon/backend/cuda/cuda.h"
#include <math.h>

#define THREADS 256

static size_t row_values(const struct cuda *c)
{
    return (size_t)c->host->base.hparams.n_layers * c->host->base.hparams.per_layer;
}

static void read_rows(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct cuda *c = ctx;
    const struct scratch *s = &c->host->scratch;
    for (size_t i = begin; i < end; i++) {
        const struct token *t = &s->tokens[i];
        const uint32_t id = t->entry->tokens ? (uint32_t)t->entry->tokens[t->pos - t->entry->pos] : 0;
        weights_embed_layers(&c->host->weights, id, s->embedding.all + i * row_values(c));
    }
}

int cuda_upload_layers(struct cuda_pass *p)
{
    struct cuda *c = p->c;
    if (!c->host->base.hparams.per_layer) return 0;
    compute_pool_run(c->host->pool, read_rows, c, p->n, 1, 4);
    return cuda_upload(&c->device, c->buf.layers.rows, c->host->scratch.embedding.all,
                       p->n * row_values(c) * sizeof(float));
}

int cuda_embed_layers(struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    const struct product out = {&c->host->weights.per_layer.proj, c->buf.layers.e};
    const struct cuda_layer_rows a = {.e = c->buf.layers.e,
                                      .rows = c->buf.layers.rows,
                                      .w = cuda_weight(c, c->host->weights.per_layer.norm),
                                      .scale = (float)(1 / sqrt((double)s->dim)),
                                      .row_scale = (float)sqrt((double)s->per_layer),
                                      .eps = s->rms_eps,
                                      .k = s->per_layer};
    int r = cuda_norm_products(p, &(struct cuda_norm_by){.w = NULL}, &out, 1, NULL);
    const struct cuda_grid g = {s->n_layers, p->n, THREADS, (a.k + 1) * (unsigned)sizeof(float)};
    return r ? r : cuda_launch(&c->device, c->kern.layer_rows, g, &a);
}

int cuda_layer_embedding(const struct cuda_pass *p, const uint32_t *list)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    const struct layer *w = p->cpu.w;
    const struct product in = {&w->embedding.gate, c->buf.layers.gate}, out = {&w->embedding.proj, c->buf.h};
    struct cuda_layer_gate a = {.gate = c->buf.layers.gate,
                                .e = c->buf.layers.e + (size_t)p->cpu.layer * s->per_layer,
                                .list = list,
                                .k = s->per_layer,
                                .ld = (uint32_t)row_values(c)};
    int r = cuda_products(p, &in, 1, c->buf.h, &c->buf.h_acts);
    if (cpu_quantized(&out, 1)) a.q = cuda_acts_of(p, c->buf.layers.gate_acts);
    if (cuda_reads_plain(p, &out, 1)) a.f = c->buf.layers.gate;
    if (!r) r = cuda_launch(&c->device, c->kern.layer_gate, cuda_rows_grid(a.k, p->n), &a);
    return r ? r : cuda_products(p, &out, 1, c->buf.layers.gate, &c->buf.layers.gate_acts);
}

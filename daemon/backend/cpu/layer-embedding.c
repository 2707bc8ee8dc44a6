/* SPDX-License-Identifier: MIT */
/*
 * The embeddings of tokens for each layer (Gemma 3n, Gemma 4). The row of a table is added to a product of the token's
 * ordinary embedding, normed layer by layer:
 *
 *     e = (norm((W x) / sqrt(dim)) + row * sqrt(per_layer)) * sqrt(1/2)
 *
 * In a layer: out = norm(P (gelu(G in) * e)).
 */
#include "daemon/backend/cpu/cpu.h"
#include <math.h>

static void embed_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    const struct hparams *y = &p->c->base.hparams;
    const struct weights *w = &p->c->weights;
    const struct kernels *k = p->c->kern;
    const size_t n = y->per_layer, all = y->n_layers * n;
    float *row = p->c->scratch.embedding.row + thread * all;
    for (size_t i = begin; i < end; i++) {
        const struct token *t = &p->c->scratch.tokens[i];
        float *e = p->c->scratch.embedding.all + i * all;
        /* what is not a token is embedded as the padding, token 0 */
        weights_embed_layers(w, t->entry->tokens ? (uint32_t)t->entry->tokens[t->pos - t->entry->pos] : 0, row);
        k->scale(row, (float)sqrt((double)n), all);
        k->scale(e, (float)(1 / sqrt((double)y->dim)), all);
        for (size_t l = 0; l < y->n_layers; l++) cpu_norm(p, e + l * n, e + l * n, w->per_layer.norm, NULL, n);
        k->add(e, row, all);
        k->scale(e, (float)sqrt(0.5), all);
    }
}

void cpu_embed_layers(struct pass *p)
{
    const struct product out = {&p->c->weights.per_layer.proj, p->c->scratch.embedding.all};
    p->norm = NULL;
    p->quantize = cpu_quantized(&out, 1);
    cpu_norm_each(p);
    cpu_products(p, &out, 1, &p->c->scratch.h, p->n);
    cpu_each(p, embed_tokens, p->n);
}

static void gate_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    const struct hparams *y = &p->c->base.hparams;
    const struct embedding_scratch *s = &p->c->scratch.embedding;
    for (size_t i = begin; i < end; i++) {
        const float *e = s->all + (i * y->n_layers + p->layer) * y->per_layer;
        p->c->kern->gelu_mul(s->gate.f + i * y->per_layer, e, y->per_layer);
        cpu_quantize_row(p, &s->gate, i);
    }
}

void cpu_layer_embedding(struct pass *p)
{
    struct scratch *s = &p->c->scratch;
    const struct product in = {&p->w->embedding.gate, s->embedding.gate.f}, out = {&p->w->embedding.proj, s->h.f};
    cpu_products(p, &in, 1, &s->h, p->n);
    p->quantize = cpu_quantized(&out, 1);
    cpu_each(p, gate_tokens, p->n);
    cpu_products(p, &out, 1, &s->embedding.gate, p->n);
}

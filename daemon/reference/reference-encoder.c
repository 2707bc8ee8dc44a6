/* SPDX-License-Identifier: MIT */
/* What the first layer reads, and what only encoders have. */
#include "daemon/reference/reference-pass.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Add learned positions to the first residuals. */
static int add_positions(struct pass *p)
{
    const struct gguf_tensor *t = gguf_find_tensor(p->r->g, "position_embd.weight");
    _cleanup_(freep) float *row = malloc(p->r->s.dim * sizeof(*row));
    int e = !row ? error_origin(-ENOMEM) : t ? 0 : error_say(-EINVAL, "tensor 'position_embd.weight' is missing");
    if (!e && p->n > t->dims[1]) e = error_say(-EINVAL, "%u tokens are more than the learned positions", p->n);
    for (size_t i = 0; !e && i < p->n; i++) {
        e = reference_rows(t, i, 1, row);
        for (size_t d = 0; d < p->r->s.dim; d++) p->x[i * p->r->s.dim + d] += row[d];
    }
    return e;
}

/* The rows of tokens, or embeddings in their place. */
static int embed(struct pass *p, const struct gguf_tensor *table, const int32_t *ids, const float *embd)
{
    const struct hparams *s = &p->r->s;
    for (size_t i = 0; i < p->n; i++) {
        float *x = p->x + i * s->dim;
        if (embd && ids[i] == ITEM_EMBD) {
            memcpy(x, embd + i * s->dim, s->dim * sizeof(*x));
            continue;
        }
        if (ids[i] < 0 || (uint32_t)ids[i] >= s->vocab)
            return error_say(-EINVAL, "token %d is outside the vocabulary", ids[i]);
        int e = reference_rows(table, (uint64_t)ids[i], 1, x);
        if (!e) e = reference_adapt_row(p, x, table, (uint32_t)i, (uint64_t)ids[i]);
        if (e) return e;
        for (size_t j = 0; j < s->dim; j++) x[j] *= s->scale.embedding;
    }
    return 0;
}

/* Add the tokens' types, and norm the embeddings. */
static int begin_encoder(struct pass *p)
{
    const size_t dim = p->r->s.dim;
    _cleanup_(freep) float *row = malloc(dim * sizeof(*row));
    int e = row ? 0 : error_origin(-ENOMEM);
    for (size_t i = 0; !e && p->r->s.embedding.types && i < p->n; i++) {
        e = reference_shared_row(p, row, "token_types.weight", p->types ? p->types[i] : 0);
        for (size_t d = 0; !e && d < dim; d++) p->x[i * dim + d] += row[d];
    }
    return e ? e : reference_shared_norm(p, p->x, p->x, p->n, dim, "token_embd_norm");
}

int reference_embed(struct pass *p, const struct gguf_tensor *table, const int32_t *ids, const float *embd)
{
    const struct arch *a = p->r->s.desc;
    int e = embed(p, table, ids, embd);
    if (!e && a->block.positions) e = add_positions(p);
    return e || !a->encoder.is ? e : begin_encoder(p);
}

int reference_outer_norm(struct pass *p, const char *which)
{
    const size_t dim = p->r->s.dim, all = p->n * dim;
    char second[64];
    snprintf(second, sizeof(second), "blk.%u.attn_norm_2.weight", p->layer);
    for (size_t i = 0; i < all; i++) p->h[i] += p->x[i];
    int e = reference_norm(p, p->h, p->h, p->n, dim, which);
    if (!e && !strcmp(which, "attn_output_norm") && gguf_find_tensor(p->r->g, second)) {
        for (size_t i = 0; i < all; i++) p->h[i] += p->x[i];
        e = reference_norm(p, p->h, p->h, p->n, dim, "attn_norm_2");
    }
    memcpy(p->x, p->h, all * sizeof(*p->x));
    return e;
}

double reference_slope(const struct pass *p, uint32_t head)
{
    const double alibi = p->r->s.desc->encoder.alibi;
    const uint32_t heads = p->r->s.heads, even = 1u << (uint32_t)floor(log2(heads));
    if (alibi == 0) return 0;
    if (head < even) return pow(pow(2, -alibi / even), head + 1);
    return pow(pow(2, -alibi / 2 / even), 2 * (head - even) + 1);
}

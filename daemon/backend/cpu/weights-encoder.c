/* SPDX-License-Identifier: MIT */
/* The tensors that only models for embeddings and ranking have. */
#include "daemon/backend/cpu/weights-want.h"
#include "libcommon/error.h"
#include <stdio.h>

static bool has(const struct weights_plan *p, const char *name)
{
    return gguf_find_tensor(p->g, name);
}

int weights_want_encoder(struct weights_plan *p)
{
    const struct hparams *s = p->s;
    struct weights_encoder *e = &p->w->encoder;
    int r = 0;
    if (s->embedding.types) r = weights_want_vectors(p, &e->types, "token_types.weight", s->dim, s->embedding.types);
    if (r || s->desc->encoder.embd_norm == ARCH_NEVER) return r;
    r = weights_want_named_vector(p, &e->norm, "token_embd_norm.weight", s->dim);
    return r ? r : weights_want_norm_bias(p, &e->norm_bias, "token_embd_norm.bias");
}

/* A norm of layer @l, with its bias. */
static int want_norm(struct weights_plan *p, const float **w, const float **bias, uint32_t l, const char *which)
{
    int r = weights_want_norm(p, w, l, which, p->s->dim, true);
    return r ? r : weights_want_norm_bias(p, bias, weights_name(l, which, "bias").s);
}

/* The bias of a norm of all of q or of k, if the file has it. */
static int want_heads_bias(struct weights_plan *p, const float **v, uint32_t l, const char *which, uint32_t n)
{
    const struct weights_name name = weights_name(l, which, "bias");
    return has(p, name.s) ? weights_want_named_vector(p, v, name.s, n) : 0;
}

/* A layer's input is the output of the last layer's second norm, and the last layer's output that of the last norm. */
int weights_want_outer_norms(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const bool last = l + 1 == p->s->n_layers;
    struct layer *next = y + 1;
    int r = want_norm(p, &y->ffn_norm, &y->ffn_norm_bias, l, "attn_output_norm");
    if (!r && weights_has_weight(p, l, "attn_norm_2"))
        r = want_norm(p, &y->encoder.second_norm, &y->encoder.second_norm_bias, l, "attn_norm_2");
    if (!r) r = want_heads_bias(p, &y->encoder.q_norm_bias, l, "attn_q_norm", p->s->heads * p->s->head_dim);
    if (!r) r = want_heads_bias(p, &y->encoder.k_norm_bias, l, "attn_k_norm", p->s->kv_heads * p->s->head_dim);
    return r ? r
             : want_norm(p, last ? &p->w->output_norm : &next->attn_norm,
                         last ? &p->w->output_norm_bias : &next->attn_norm_bias, l, "layer_output_norm");
}

/* The matrix "@name.weight" of @rows rows of @k values, with "@name.bias" if the file has that. */
static int want_dense(struct weights_plan *p, struct matrix *m, const char *name, uint32_t k, uint32_t rows)
{
    char full[64];
    snprintf(full, sizeof(full), "%s.weight", name);
    int r = weights_want_named(p, m, full, k, rows);
    snprintf(full, sizeof(full), "%s.bias", name);
    return r || !has(p, full) ? r : weights_want_named_vector(p, &m->bias, full, rows);
}

/* The width between the two projections. */
static int projections(struct weights_plan *p)
{
    const struct gguf_tensor *first = gguf_find_tensor(p->g, "dense_2.weight");
    if (!first) return 0;
    if (first->dims[1] < 1 || first->dims[1] > 1 << 17)
        return error_say(-EINVAL, "%s: tensor 'dense_2.weight' has %llu rows", gguf_path(p->g),
                         (unsigned long long)first->dims[1]);
    const uint32_t width = (uint32_t)first->dims[1];
    int r = want_dense(p, &p->w->head.project[0], "dense_2", p->s->dim, width);
    return r ? r : want_dense(p, &p->w->head.project[1], "dense_3", width, p->s->dim);
}

int weights_want_head(struct weights_plan *p)
{
    const struct hparams *s = p->s;
    struct weights_head *h = &p->w->head;
    const bool out = has(p, "cls.output.weight"), dense = has(p, "cls.weight");
    if (!s->embedding.whole && s->embedding.pooling == POOLING_NONE) return 0;
    int r = projections(p);
    if (!r && s->embedding.pooling == POOLING_RANK && !out && !dense)
        r = error_say(-EINVAL, "%s: tensor 'cls.output.weight' is missing, but key '%s.pooling_type' is 4 (rank)",
                      gguf_path(p->g), s->arch);
    if (!r && dense) r = want_dense(p, &h->dense, "cls", s->dim, out ? s->dim : s->embedding.labels);
    if (!r && dense && has(p, "cls.norm.weight")) r = weights_want_named_vector(p, &h->norm, "cls.norm.weight", s->dim);
    return r || !out ? r : want_dense(p, &h->out, "cls.output", s->dim, s->embedding.labels);
}

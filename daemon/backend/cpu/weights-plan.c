/* SPDX-License-Identifier: MIT */
/* Finds a model's tensors, and compares their dimensions with the model's keys. */
#include "daemon/backend/cpu/weights-plan.h"
#include "daemon/backend/cpu/recurrent.h"
#include "daemon/backend/cpu/weights-want.h"
#include "daemon/model/xielu.h"
#include "libcommon/error.h"
#include <stdio.h>

static int want_feed_forward(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const uint32_t dim = p->s->dim, f = hparams_ffn(p->s, l);
    const bool alone = p->s->desc->block.no_gate, apart = weights_has_weight(p, l, "ffn_gate");
    const bool gate = p->s->desc->fused && !alone && !apart;
    const struct weights_part parts[] = {
        {gate ? "ffn_up" : "ffn_gate", &y->gate, dim, f, {0, gate ? 2 * f : f, 1}},
        {"ffn_up", &y->up, dim, f, {gate ? f : 0, gate ? 2 * f : f, 1}},
        {"ffn_down", &y->down, f, dim, {0, dim, 1}},
    };
    return weights_want_parts(p, l, parts + alone, 3 - alone);
}

static int want_experts(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const struct hparams *s = p->s;
    const uint32_t dim = s->dim, n = s->experts.n, f = s->experts.ffn, one = s->experts.shared_ffn;
    if (weights_has_weight(p, l, "ffn_gate.0"))
        return error_say(
            -EOPNOTSUPP,
            "%s: each expert is a tensor of its own ('%s'), as in files made before April 2024: take a newer "
            "file of this model, or convert it again",
            gguf_path(p->g), weights_name(l, "ffn_gate.0", "weight").s);
    const bool both = s->desc->experts.beside && weights_has_weight(p, l, "ffn_gate_up_exps");
    const struct weights_part parts[] = {
        {"ffn_gate_inp", &y->router, dim, n, {0, n, 1}},
        {both ? "ffn_gate_up_exps" : "ffn_up_exps", &y->up, dim, f, {both ? f : 0, both ? 2 * f : f, n}},
        {"ffn_down_exps", &y->down, f, dim, {0, dim, n}},
        {"ffn_up_shexp", &y->shared_up, dim, one, {0, one, 1}},
        {"ffn_down_shexp", &y->shared_down, one, dim, {0, dim, 1}},
        {"ffn_gate_inp_shexp", &y->shared_router, dim, 1, {0, 1, 1}},
    };
    const struct weights_part gates[] = {
        {both ? "ffn_gate_up_exps" : "ffn_gate_exps", &y->gate, dim, f, {0, both ? 2 * f : f, n}},
        {"ffn_gate_shexp", &y->shared_gate, dim, one, {0, one, 1}},
    };
    int r = weights_want_parts(p, l, parts, !one ? 3 : s->desc->experts.shared == SHARED_GATED ? 6 : 5);
    return r || s->desc->block.no_gate ? r : weights_want_parts(p, l, gates, one ? 2 : 1);
}

static int want_layer(struct weights_plan *p, uint32_t l)
{
    struct layer *y = &p->w->layers[l];
    const uint8_t parts = p->s->by_layer.parts[l];
    int r = p->s->desc->activation == ACT_XIELU ? xielu_read(p->g, p->s->n_layers, l, y->xielu) : 0;
    if (!r) r = weights_want_norms(p, y, l);
    if (!r && parts & LAYER_ATTENTION)
        r = p->s->mla.kv_rank ? weights_want_latent(p, y, l) : weights_want_attention(p, y, l);
    if (!r && parts & LAYER_RECURRENT) r = recurrent_of(p->s)->want(p, &y->recurrent, l);
    if (!r && parts & LAYER_FFN) r = hparams_mixes(p->s, l) ? want_experts(p, y, l) : want_feed_forward(p, y, l);
    if (!r && p->s->per_layer) r = weights_want_layer_embedding(p, y, l);
    if (!r && p->s->desc->experts.beside && hparams_mixes(p->s, l)) r = weights_want_beside(p, y, l);
    if (!r && p->s->desc->block.out_scale && weights_has(p, l, "layer_output_scale.weight"))
        r = weights_want_rows(p, &y->out_scale, l, "layer_output_scale.weight", 1, 1);
    if (!r && p->s->altup.streams) r = weights_want_altup(p, y, l);
    return r ? r : weights_want_biases(p, y, l);
}

static int want_embedding(struct weights_plan *p)
{
    const struct hparams *s = p->s;
    p->w->output.k = s->dim;
    if (s->embedding.whole) /* no logits */
        return weights_want_table(p, "token_embd.weight", s->dim, &p->w->embd, &p->w->embd_type);
    if (s->tied) return weights_want_named(p, &p->w->output, hparams_embedding(s, p->g), s->dim, s->vocab);
    int r = weights_want_table(p, "token_embd.weight", s->dim, &p->w->embd, &p->w->embd_type);
    return r ? r : weights_want_named(p, &p->w->output, "output.weight", s->dim, s->vocab);
}

/* The norm behind the last layer. */
static int want_output_norm(struct weights_plan *p)
{
    char name[64];
    const char *norm = p->s->desc->output_norm ? p->s->desc->output_norm : "output_norm";
    snprintf(name, sizeof(name), "%s.weight", norm);
    int r = weights_want_named_vector(p, &p->w->output_norm, name, p->s->dim);
    snprintf(name, sizeof(name), "%s.bias", norm);
    return r ? r : weights_want_norm_bias(p, &p->w->output_norm_bias, name);
}

int weights_plan(struct weights_plan *p)
{
    if (p->s->mtp.first) {
        int r = weights_want_mtp(p);
        if (!r) r = want_layer(p, p->s->mtp.first);
        return r ? r : weights_refuse_others(p);
    }
    int r = want_embedding(p);
    if (!r) r = weights_want_encoder(p);
    for (uint32_t l = 0; !r && l < p->s->n_layers; l++) {
        if (p->begin) p->begin[l] = p->size;
        r = want_layer(p, l);
    }
    if (p->begin) p->begin[p->s->n_layers] = p->size;
    if (!r) r = weights_want_head(p);
    if (!r && !p->s->desc->encoder.outer_norms) r = want_output_norm(p);
    if (!r && p->s->desc->block.output_bias)
        r = weights_want_named_vector(p, &p->w->output.bias, "output.bias", p->s->vocab);
    if (!r && p->s->desc->block.positions)
        r = weights_want_vectors(p, &p->w->positions, "position_embd.weight", p->s->dim, p->s->ctx);
    if (!r) r = weights_want_rope(p);
    if (!r && p->s->per_layer) r = weights_want_per_layer(p);
    return r ? r : weights_refuse_others(p);
}

/* SPDX-License-Identifier: MIT */
/* The tensors of the layers' embeddings of tokens, of AltUp and LAuReL, of a feed-forward beside experts, and of RoPE.
 */
#include "daemon/backend/cpu/weights-want.h"
#include "libcommon/error.h"

int weights_want_layer_embedding(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const uint32_t dim = p->s->dim, n = p->s->per_layer;
    int r = weights_want_matrix(p, &y->embedding.gate, l, "inp_gate", dim, n);
    if (!r) r = weights_want_matrix(p, &y->embedding.proj, l, "proj", n, dim);
    return r ? r : weights_want_rows(p, &y->embedding.norm, l, "post_norm.weight", dim, 1);
}

int weights_want_altup(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const uint32_t dim = p->s->dim, n = p->s->altup.streams, rank = p->s->altup.rank;
    struct layer_altup *a = &y->altup;
    int r = weights_want_rows(p, &a->router_norm, l, "altup_router_norm.weight", dim, 1);
    if (!r) r = weights_want_rows(p, &a->router, l, "altup_router.weight", dim, n);
    if (!r) r = weights_want_rows(p, &a->predict, l, "altup_predict_coef.weight", n, n * n);
    if (!r) r = weights_want_rows(p, &a->correct, l, "altup_correct_coef.weight", n, n);
    if (!r) r = weights_want_rows(p, &a->correct_scale, l, "altup_correct_scale.weight", dim, 1);
    if (!r) r = weights_want_matrix(p, &a->laurel_in, l, "laurel_l", dim, rank);
    if (!r) r = weights_want_matrix(p, &a->laurel_out, l, "laurel_r", rank, dim);
    return r ? r : weights_want_rows(p, &a->laurel_norm, l, "laurel_post_norm.weight", dim, 1);
}

int weights_want_beside(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const uint32_t dim = p->s->dim, ffn = hparams_ffn(p->s, l);
    struct layer_beside *b = &y->beside;
    int r = weights_want_matrix(p, &b->gate, l, "ffn_gate", dim, ffn);
    if (!r) r = weights_want_matrix(p, &b->up, l, "ffn_up", dim, ffn);
    if (!r) r = weights_want_matrix(p, &b->down, l, "ffn_down", ffn, dim);
    if (!r) r = weights_want_rows(p, &b->post_norm, l, "post_ffw_norm_1.weight", dim, 1);
    if (!r) r = weights_want_rows(p, &b->experts_norm, l, "pre_ffw_norm_2.weight", dim, 1);
    if (!r) r = weights_want_rows(p, &b->experts_post_norm, l, "post_ffw_norm_2.weight", dim, 1);
    if (!r) r = weights_want_rows(p, &b->router_norm, l, "ffn_gate_inp.scale", dim, 1);
    if (r || !weights_has(p, l, "ffn_down_exps.scale")) return r;
    return weights_want_rows(p, &b->scale, l, "ffn_down_exps.scale", p->s->experts.n, 1);
}

int weights_want_per_layer(struct weights_plan *p)
{
    const struct hparams *s = p->s;
    const uint32_t all = s->n_layers * s->per_layer, more = s->altup.streams - 1;
    struct weights_per_layer *w = &p->w->per_layer;
    int r = weights_want_table(p, "per_layer_token_embd.weight", all, &w->embd, &w->embd_type);
    if (!r) r = weights_want_stack(p, &w->proj, "per_layer_model_proj.weight", s->dim, all, 1);
    if (!r) r = weights_want_named_vector(p, &w->norm, "per_layer_proj_norm.weight", s->per_layer);
    if (r || !s->altup.streams) return r;
    r = weights_want_stack(p, &p->w->altup_in, "altup_proj.weight", s->dim, s->dim, more);
    return r ? r : weights_want_stack(p, &p->w->altup_out, "altup_unembd_proj.weight", s->dim, s->dim, more);
}

/* A layer has no window. */
static bool full_layers(const struct hparams *s)
{
    for (uint32_t l = 0; l < s->n_layers; l++)
        if (!hparams_window(s, l)) return true;
    return false;
}

int weights_want_rope(struct weights_plan *p)
{
    uint32_t n = p->s->rope_dim / 2;
    if (!p->s->rotates) return 0;
    if (p->s->desc->rope.tensors == ARCH_NEVER)
        return p->s->rope.kind == ROPE_LONG
                   ? error_say(-EOPNOTSUPP, "%s: RoPE scaling 'longrope' is not supported in a '%s' model",
                               gguf_path(p->g), p->s->arch)
                   : 0;
    if (p->s->rope.kind == ROPE_LONG) {
        int r = weights_want_named_vector(p, &p->w->rope_short, ROPE_SHORT_TENSOR, n);
        return r ? r : weights_want_named_vector(p, &p->w->rope_long, ROPE_LONG_TENSOR, n);
    }
    const bool must = p->s->desc->rope.tensors == ARCH_MUST && full_layers(p->s);
    return must || gguf_find_tensor(p->g, ROPE_TENSOR)
               ? weights_want_named_vector(p, &p->w->rope_factors, ROPE_TENSOR, n)
               : 0;
}

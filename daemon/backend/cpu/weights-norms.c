/* SPDX-License-Identifier: MIT */
/* Norms and biases of a layer. */
#include "daemon/backend/cpu/weights-want.h"

int weights_want_norm_bias(struct weights_plan *p, const float **v, const char *name)
{
    const enum arch_need need = p->s->desc->block.norm_bias;
    if (need == ARCH_NEVER || (need == ARCH_MAY && !gguf_find_tensor(p->g, name))) return 0;
    return weights_want_named_vector(p, v, name, p->s->dim);
}

/* Norms of q and k with weights of their own for each head, if the file has them. */
static int want_heads_norms(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const struct hparams *s = p->s;
    const struct weights_name q = weights_name(l, "attn_q_norm", "weight"),
                              k = weights_name(l, "attn_k_norm", "weight");
    if (s->desc->block.qk_may && !gguf_find_tensor(p->g, q.s) && !gguf_find_tensor(p->g, k.s)) return 0;
    int r = weights_want_vectors(p, &y->q_norm, q.s, s->head_dim, s->heads);
    return r ? r : weights_want_vectors(p, &y->k_norm, k.s, s->head_dim, s->kv_heads);
}

/* A value for each row of @m. */
static int want_bias(struct weights_plan *p, struct matrix *m, uint32_t l, const char *which, enum arch_need need)
{
    const struct weights_name name = weights_name(l, which, "bias");
    if (need == ARCH_NEVER || (need == ARCH_MAY && !gguf_find_tensor(p->g, name.s))) return 0;
    return weights_want_vectors(p, &m->bias, name.s, m->rows, m->stacked);
}

/* Biases of q, k and v: tensors of their own, or parts of one as their matrices. */
static int want_qkv_biases(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const struct arch *a = p->s->desc;
    const struct gguf_tensor *t = NULL;
    struct matrix *const parts[] = {&y->q, &y->k, &y->v};
    if (!a->fused || !gguf_find_tensor(p->g, weights_name(l, "attn_qkv", "weight").s)) {
        int r = want_bias(p, &y->q, l, "attn_q", a->qkv_bias);
        if (!r) r = want_bias(p, &y->k, l, "attn_k", a->qkv_bias);
        return r ? r : want_bias(p, &y->v, l, "attn_v", a->qkv_bias);
    }
    const struct weights_name name = weights_name(l, "attn_qkv", "bias");
    if (a->qkv_bias == ARCH_NEVER || (a->qkv_bias == ARCH_MAY && !gguf_find_tensor(p->g, name.s))) return 0;
    int r = weights_find(p, name.s, y->q.rows + y->k.rows + y->v.rows, 1, 1, &t);
    if (!r) r = weights_check_vector(p, t, name.s);
    for (uint32_t i = 0, first = 0; !r && i < 3; first += parts[i++]->rows) {
        struct weights_item *item = weights_reserve(p, t, parts[i]->rows * sizeof(float), i ? 0 : t->size);
        item->vector = &parts[i]->bias;
        item->row = first;
    }
    p->tensors += !r;
    return r;
}

static int want_choice_bias(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const struct weights_name name = weights_name(l, "exp_probs_b", "bias");
    const enum arch_need need = p->s->desc->experts.choice_bias;
    if (need == ARCH_NEVER || (need == ARCH_MAY && !gguf_find_tensor(p->g, name.s))) return 0;
    return weights_want_named_vector(p, &y->choice_bias, name.s, p->s->experts.n);
}

/* Files of Falcon-H1 have it without ".weight". */
static int want_ffn_norm(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const char *name = p->s->desc->ffn_norm ? p->s->desc->ffn_norm : "ffn_norm";
    if (p->s->desc->pre_norm && p->s->desc->recurrent.kind && weights_has(p, l, name))
        return weights_want_rows(p, &y->ffn_norm, l, name, p->s->dim, 1);
    return weights_want_norm(p, &y->ffn_norm, l, name, p->s->dim, p->s->desc->pre_norm);
}

int weights_want_norms(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const struct hparams *s = p->s;
    const struct arch *a = s->desc;
    const bool attention = s->by_layer.parts[l] & LAYER_ATTENTION, apart = a->block.parallel == PARALLEL_BY_KEY;
    const bool shared = (s->parallel && !apart) || !a->pre_norm, own = hparams_own_kv(s, l);
    const struct hparams_heads h = hparams_heads(s, l);
    const bool whole = a->qk_norm == QK_NORM_WHOLE, each = attention && a->qk_norm == QK_NORM_EACH;
    const bool may = a->block.qk_may && !weights_has_weight(p, l, "attn_q_norm");
    const bool qk = attention && a->qk_norm != QK_PLAIN && a->qk_norm != QK_NORM_UNIT && !each && !may;
    const bool plain = a->encoder.first_plain && !l && !weights_has_weight(p, l, "attn_norm");
    const bool pre = a->pre_norm && s->by_layer.parts[l] != LAYER_FFN && !plain;
    int r = weights_want_norm(p, &y->attn_norm, l, "attn_norm", s->dim, pre);
    if (!r) r = weights_want_norm(p, &y->q_norm, l, "attn_q_norm", h.head_dim * (whole ? s->heads : 1), qk);
    if (!r) r = weights_want_norm(p, &y->k_norm, l, "attn_k_norm", h.head_dim * (whole ? h.kv_heads : 1), qk && own);
    if (!r) r = weights_want_norm(p, &y->attn_post_norm, l, "post_attention_norm", s->dim, a->post_norm);
    if (!r && s->by_layer.parts[l] & LAYER_FFN && !shared) r = want_ffn_norm(p, y, l);
    if (!r && each) r = want_heads_norms(p, y, l);
    if (a->encoder.outer_norms) return r ? r : weights_want_outer_norms(p, y, l);
    if (!r) r = weights_want_norm_bias(p, &y->attn_norm_bias, weights_name(l, "attn_norm", "bias").s);
    if (!r && s->by_layer.parts[l] & LAYER_FFN && !shared)
        r = weights_want_norm_bias(p, &y->ffn_norm_bias, weights_name(l, "ffn_norm", "bias").s);
    if (!r) r = weights_want_norm(p, &y->sink_scores, l, "attn_sinks", s->heads, attention && a->attention.sink_scores);
    if (!r) r = weights_want_norm(p, &y->attn_sub_norm, l, "attn_sub_norm", s->heads * s->head_dim, a->block.sub_norms);
    if (!r) r = weights_want_norm(p, &y->ffn_sub_norm, l, "ffn_sub_norm", s->ffn, a->block.sub_norms);
    return r ? r : weights_want_norm(p, &y->ffn_post_norm, l, "post_ffw_norm", s->dim, a->post_norm);
}

int weights_want_biases(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const struct arch *a = p->s->desc;
    const bool experts = hparams_mixes(p->s, l);
    const enum arch_need ffn = !experts ? a->ffn_bias : a->experts.bias ? ARCH_MUST : ARCH_NEVER;
    int r = 0;
    if (p->s->by_layer.parts[l] & LAYER_ATTENTION) {
        r = want_qkv_biases(p, y, l);
        if (!r) r = want_bias(p, &y->o, l, "attn_output", a->o_bias);
    }
    if (r || !(p->s->by_layer.parts[l] & LAYER_FFN)) return r;
    if (experts) r = want_bias(p, &y->router, l, "ffn_gate_inp", ffn);
    if (!r && experts) r = want_choice_bias(p, y, l);
    if (!r && !a->block.no_gate) r = want_bias(p, &y->gate, l, experts ? "ffn_gate_exps" : "ffn_gate", ffn);
    if (!r) r = want_bias(p, &y->up, l, experts ? "ffn_up_exps" : "ffn_up", ffn);
    return r ? r : want_bias(p, &y->down, l, experts ? "ffn_down_exps" : "ffn_down", ffn);
}

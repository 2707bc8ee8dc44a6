/* SPDX-License-Identifier: MIT */
/* Matrices of a layer's attention. */
#include "daemon/backend/cpu/weights-want.h"
#include "libcommon/error.h"

int weights_want_attention(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const struct hparams *s = p->s;
    const struct hparams_heads h = hparams_heads(s, l);
    const uint32_t head = h.head_dim, q = s->heads * head, kv = h.kv_heads * head;
    const bool qkv = weights_has_weight(p, l, "attn_qkv");
    const struct weights_part parts[] = {
        {qkv ? "attn_qkv" : "attn_q", &y->q, s->dim, q, {0, qkv ? q + 2 * kv : q, .stacked = 1}},
        {qkv ? "attn_qkv" : "attn_k", &y->k, s->dim, kv, {qkv ? q : 0, qkv ? q + 2 * kv : kv, .stacked = 1}},
        {qkv ? "attn_qkv" : "attn_v", &y->v, s->dim, kv, {qkv ? q + kv : 0, qkv ? q + 2 * kv : kv, .stacked = 1}},
        {"attn_output", &y->o, q, s->dim, {0, s->dim, .stacked = 1}},
        {"attn_gate", &y->q_gate, s->dim, q, {0, q, .stacked = 1}},
    };
    const struct weights_part gated[] = {
        {"attn_q", &y->q, s->dim, q, {0, 2 * q, 1, head, 2 * head}},
        {"attn_q", &y->q_gate, s->dim, q, {head, 2 * q, 1, head, 2 * head}},
    };
    if (!hparams_own_kv(s, l)) {
        const struct weights_part two[] = {parts[0], parts[3]};
        return weights_want_parts(p, l, two, 2);
    }
    if (s->desc->attention.k_is_v && !qkv && !weights_has_weight(p, l, "attn_v")) {
        const struct weights_part three[] = {parts[0], parts[1], parts[3]};
        return weights_want_parts(p, l, three, 3);
    }
    if (s->desc->attention.q_gate != Q_GATE_BEHIND)
        return weights_want_parts(p, l, parts, s->desc->attention.q_gate == Q_GATE_APART ? 5 : 4);
    if (qkv)
        return error_say(-EOPNOTSUPP, "%s: tensor 'blk.%u.attn_qkv.weight' is not supported in gated attention",
                         gguf_path(p->g), l);
    if (head % KERN_ROWS)
        return error_say(-EOPNOTSUPP, "%s: gated attention with heads of %u dimensions, which is no multiple of %u",
                         gguf_path(p->g), head, KERN_ROWS);
    int r = weights_want_parts(p, l, gated, 2);
    return r ? r : weights_want_parts(p, l, parts + 1, 3);
}

/* The matrices of the heads: two tensors, or in older files one with both, in which k_b lies transposed. It is kept in
 * F32 then, as the values of its codes. */
static int want_heads(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const struct hparams *s = p->s;
    const struct hparams_mla *m = &s->mla;
    const uint32_t both = m->nope + m->value;
    const struct weights_part parts[] = {
        {"attn_k_b", &y->mla.k_b, m->nope, m->kv_rank, {0, m->kv_rank, s->heads}},
        {"attn_v_b", &y->mla.v_b, m->kv_rank, m->value, {0, m->value, s->heads}},
    };
    const struct weights_part older = {"attn_kv_b", &y->mla.v_b, m->kv_rank, both * s->heads, {0, both * s->heads, 1}};
    if (weights_has_weight(p, l, "attn_k_b") || !weights_has_weight(p, l, "attn_kv_b"))
        return weights_want_parts(p, l, parts, 2);
    int r = weights_want_parts(p, l, &older, 1);
    if (r) return r;
    struct weights_item *i = &p->items[--p->n]; /* in its place, the two */
    const struct gguf_tensor *t = i->t;
    p->size = i->offset;
    p->source -= i->source;
    const enum kern_type type = y->mla.v_b.type;
    y->mla.k_b = (struct matrix){.type = kern_type_quantized(type) ? KERN_F32 : type, .rows = m->kv_rank, .k = m->nope};
    y->mla.v_b = (struct matrix){.type = type, .rows = m->value, .k = m->kv_rank};
    struct matrix *const two[] = {&y->mla.k_b, &y->mla.v_b};
    for (uint32_t j = 0; j < 2; j++) {
        struct matrix *x = two[j];
        x->stacked = s->heads;
        x->n_panels = (x->rows + KERN_ROWS - 1) / KERN_ROWS;
        x->panel_bytes = kern_panel_bytes(x->type, x->k);
        i = weights_reserve(p, t, (size_t)x->stacked * x->n_panels * x->panel_bytes,
                            t->size / both * (j ? m->value : m->nope));
        i->matrix = x;
        i->row = j ? m->nope : 0;
        i->all = both;
        i->transposed = !j;
    }
    return 0;
}

int weights_want_latent(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const struct hparams *s = p->s;
    const struct hparams_mla *m = &s->mla;
    const uint32_t q = (uint32_t)hparams_queries(s), k = m->q_rank ? m->q_rank : s->dim;
    const uint32_t out = (uint32_t)hparams_attended(s);
    const struct weights_part parts[] = {
        {m->q_rank ? "attn_q_b" : "attn_q", &y->q, k, q, {0, q, 1}},
        {"attn_kv_a_mqa", &y->k, s->dim, s->head_dim, {0, s->head_dim, 1}},
        {"attn_output", &y->o, out, s->dim, {0, s->dim, 1}},
        {"attn_q_a", &y->mla.q_a, s->dim, m->q_rank, {0, m->q_rank, 1}},
    };
    int r = weights_want_parts(p, l, parts, m->q_rank ? 4 : 3);
    if (!r) r = weights_want_norm(p, &y->q_norm, l, "attn_q_a_norm", m->q_rank, m->q_rank > 0);
    if (!r) r = weights_want_norm(p, &y->k_norm, l, "attn_kv_a_norm", m->kv_rank, true);
    return r ? r : want_heads(p, y, l);
}

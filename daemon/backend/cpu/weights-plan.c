/* SPDX-License-Identifier: MIT */
/* Finds a model's tensors, and compares their dimensions with the model's keys. */
#include "daemon/backend/cpu/weights-plan.h"
#include "daemon/backend/cpu/recurrent.h"
#include "daemon/model/tensor-type.h"
#include "daemon/model/xielu.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <string.h>

static int type_of(const struct weights_plan *p, const struct gguf_tensor *t, enum kern_type *type)
{
    if (!tensor_type(t->type, type)) return 0;
    uint32_t block, bytes;
    char number[32], known[256];
    const char *name = gguf_tensor_type_name(t->type, &block, &bytes);
    size_t n = 0;
    for (enum kern_type k = 0; k < KERN_TYPES; k++)
        n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", k ? ", " : "", kern_type_name(k));
    snprintf(number, sizeof(number), "number %u", t->type);
    return error_say(-EOPNOTSUPP, "%s: tensor '%.*s' is of type %s, which is not supported; supported: %s",
                     gguf_path(p->g), (int)t->name.len, t->name.data, name ? name : number, known);
}

/* "a x b", and further dimensions that are not 1. */
static const char *dims_text(char out[96], const uint64_t d[4])
{
    int n = snprintf(out, 96, "%llu x %llu", (unsigned long long)d[0], (unsigned long long)d[1]);
    if (d[2] != 1 || d[3] != 1) n += snprintf(out + n, 96 - (size_t)n, " x %llu", (unsigned long long)d[2]);
    if (d[3] != 1) snprintf(out + n, 96 - (size_t)n, " x %llu", (unsigned long long)d[3]);
    return out;
}

/* @stacked: number of matrices in the tensor. */
static int find(const struct weights_plan *p, const char *name, uint64_t k, uint64_t rows, uint64_t stacked,
                const struct gguf_tensor **out)
{
    const uint64_t want[4] = {k, rows, stacked, 1};
    const struct gguf_tensor *t = gguf_find_tensor(p->g, name);
    char has[96], says[96];
    if (!t) return error_say(-EINVAL, "%s: tensor '%s' is missing", gguf_path(p->g), name);
    if (memcmp(t->dims, want, sizeof(want)))
        return error_say(-EINVAL, "%s: tensor '%s' is %s, but the model's keys say %s", gguf_path(p->g), name,
                         dims_text(has, t->dims), dims_text(says, want));
    *out = t;
    return 0;
}

static struct weights_item *reserve(struct weights_plan *p, const struct gguf_tensor *t, size_t bytes, uint64_t source)
{
    struct weights_item *i = &p->items[p->n++];
    *i = (struct weights_item){.t = t, .offset = p->size, .bytes = bytes, .source = source};
    p->source += source;
    p->size += kern_align(bytes);
    return i;
}

/* Rows of a tensor that a matrix uses: several matrices may share a tensor, and a tensor may stack matrices. */
struct source {
    uint32_t first, all, stacked;
    uint32_t span, step; /* as in struct weights_item; span is a multiple of KERN_ROWS */
};

static int want_rows(struct weights_plan *p, struct matrix *m, const char *name, uint32_t k, uint32_t rows,
                     struct source from)
{
    const struct gguf_tensor *t = NULL;
    int r = find(p, name, k, from.all, from.stacked, &t);
    if (!r) r = type_of(p, t, &m->type);
    if (r) return r;
    m->rows = rows;
    m->k = k;
    m->n_panels = (rows + KERN_ROWS - 1) / KERN_ROWS;
    m->stacked = from.stacked;
    m->panel_bytes = kern_panel_bytes(m->type, k);
    struct weights_item *i =
        reserve(p, t, (size_t)m->stacked * m->n_panels * m->panel_bytes, t->size / from.all * rows);
    i->matrix = m;
    i->row = from.first;
    i->all = from.all;
    i->span = from.span;
    i->step = from.step;
    p->tensors += from.first == 0;
    return 0;
}

static int want_matrix(struct weights_plan *p, struct matrix *m, const char *name, uint32_t k, uint32_t rows)
{
    return want_rows(p, m, name, k, rows, (struct source){0, rows, 1});
}

static int check_vector(const struct weights_plan *p, const struct gguf_tensor *t, const char *name)
{
    enum kern_type type;
    int r = type_of(p, t, &type);
    if (r || !kern_type_quantized(type)) return r;
    return error_say(-EOPNOTSUPP, "%s: tensor '%s' is quantized (%s); vectors must be F32, F16 or BF16",
                     gguf_path(p->g), name, kern_type_name(type));
}

/* @stacked consecutive vectors of @n values. */
static int want_vectors(struct weights_plan *p, const float **v, const char *name, uint32_t n, uint32_t stacked)
{
    const struct gguf_tensor *t = NULL;
    int r = find(p, name, n, stacked, 1, &t);
    if (!r) r = check_vector(p, t, name);
    if (r) return r;
    reserve(p, t, (size_t)n * stacked * sizeof(float), t->size)->vector = v;
    p->tensors++;
    return 0;
}

static int want_vector(struct weights_plan *p, const float **v, const char *name, uint32_t n)
{
    return want_vectors(p, v, name, n, 1);
}

struct layer_name {
    char s[64];
};

/* @what: "weight" or "bias". */
static struct layer_name layer_name(uint32_t l, const char *which, const char *what)
{
    struct layer_name n;
    snprintf(n.s, sizeof(n.s), "blk.%u.%s.%s", l, which, what);
    return n;
}

/* A vector that only some architectures have (@there). */
static int want_norm(struct weights_plan *p, const float **v, uint32_t l, const char *which, uint32_t n, bool there)
{
    return there ? want_vector(p, v, layer_name(l, which, "weight").s, n) : 0;
}

static int want_norm_bias(struct weights_plan *p, const float **v, const char *name)
{
    const enum arch_need need = p->s->desc->block.norm_bias;
    if (need == ARCH_NEVER || (need == ARCH_MAY && !gguf_find_tensor(p->g, name))) return 0;
    return want_vector(p, v, name, p->s->dim);
}

/* Norms of q and k with weights of their own for each head, if the file has them. */
static int want_heads_norms(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const struct hparams *s = p->s;
    const struct layer_name q = layer_name(l, "attn_q_norm", "weight"), k = layer_name(l, "attn_k_norm", "weight");
    if (s->desc->block.qk_may && !gguf_find_tensor(p->g, q.s) && !gguf_find_tensor(p->g, k.s)) return 0;
    int r = want_vectors(p, &y->q_norm, q.s, s->head_dim, s->heads);
    return r ? r : want_vectors(p, &y->k_norm, k.s, s->head_dim, s->kv_heads);
}

/* A value for each row of @m. */
static int want_bias(struct weights_plan *p, struct matrix *m, uint32_t l, const char *which, enum arch_need need)
{
    const struct layer_name name = layer_name(l, which, "bias");
    if (need == ARCH_NEVER || (need == ARCH_MAY && !gguf_find_tensor(p->g, name.s))) return 0;
    return want_vectors(p, &m->bias, name.s, m->rows, m->stacked);
}

/* Biases of q, k and v: tensors of their own, or parts of one as their matrices. */
static int want_qkv_biases(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const struct arch *a = p->s->desc;
    const struct gguf_tensor *t = NULL;
    struct matrix *const parts[] = {&y->q, &y->k, &y->v};
    if (!a->fused || !gguf_find_tensor(p->g, layer_name(l, "attn_qkv", "weight").s)) {
        int r = want_bias(p, &y->q, l, "attn_q", a->qkv_bias);
        if (!r) r = want_bias(p, &y->k, l, "attn_k", a->qkv_bias);
        return r ? r : want_bias(p, &y->v, l, "attn_v", a->qkv_bias);
    }
    const struct layer_name name = layer_name(l, "attn_qkv", "bias");
    if (a->qkv_bias == ARCH_NEVER || (a->qkv_bias == ARCH_MAY && !gguf_find_tensor(p->g, name.s))) return 0;
    int r = find(p, name.s, y->q.rows + y->k.rows + y->v.rows, 1, 1, &t);
    if (!r) r = check_vector(p, t, name.s);
    for (uint32_t i = 0, first = 0; !r && i < 3; first += parts[i++]->rows) {
        struct weights_item *item = reserve(p, t, parts[i]->rows * sizeof(float), i ? 0 : t->size);
        item->vector = &parts[i]->bias;
        item->row = first;
    }
    p->tensors += !r;
    return r;
}

static bool has_layer_tensor(const struct weights_plan *p, uint32_t l, const char *which)
{
    return gguf_find_tensor(p->g, layer_name(l, which, "weight").s);
}

static int want_choice_bias(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const struct layer_name name = layer_name(l, "exp_probs_b", "bias");
    const enum arch_need need = p->s->desc->experts.choice_bias;
    if (need == ARCH_NEVER || (need == ARCH_MAY && !gguf_find_tensor(p->g, name.s))) return 0;
    return want_vector(p, &y->choice_bias, name.s, p->s->experts.n);
}

/* Files of Falcon-H1 have it without ".weight". */
static int want_ffn_norm(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const char *name = p->s->desc->ffn_norm ? p->s->desc->ffn_norm : "ffn_norm";
    if (p->s->desc->pre_norm && p->s->desc->recurrent.kind && weights_has(p, l, name))
        return weights_want_rows(p, &y->ffn_norm, l, name, p->s->dim, 1);
    return want_norm(p, &y->ffn_norm, l, name, p->s->dim, p->s->desc->pre_norm);
}

static int want_norms(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const struct hparams *s = p->s;
    const struct arch *a = s->desc;
    const bool attention = s->parts[l] & LAYER_ATTENTION, own = a->block.parallel == PARALLEL_BY_KEY;
    const bool shared = (s->parallel && !own) || !a->pre_norm;
    const bool whole = a->qk_norm == QK_NORM_WHOLE, each = attention && a->qk_norm == QK_NORM_EACH;
    const bool may = a->block.qk_may && !has_layer_tensor(p, l, "attn_q_norm");
    const bool qk = attention && a->qk_norm != QK_PLAIN && !each && !may;
    int r = want_norm(p, &y->attn_norm, l, "attn_norm", s->dim, a->pre_norm && s->parts[l] != LAYER_FFN);
    if (!r) r = want_norm(p, &y->q_norm, l, "attn_q_norm", s->head_dim * (whole ? s->heads : 1), qk);
    if (!r) r = want_norm(p, &y->k_norm, l, "attn_k_norm", s->head_dim * (whole ? s->kv_heads : 1), qk);
    if (!r) r = want_norm(p, &y->attn_post_norm, l, "post_attention_norm", s->dim, a->post_norm);
    if (!r && s->parts[l] & LAYER_FFN && !shared) r = want_ffn_norm(p, y, l);
    if (!r && each) r = want_heads_norms(p, y, l);
    if (!r) r = want_norm_bias(p, &y->attn_norm_bias, layer_name(l, "attn_norm", "bias").s);
    if (!r && s->parts[l] & LAYER_FFN && !shared)
        r = want_norm_bias(p, &y->ffn_norm_bias, layer_name(l, "ffn_norm", "bias").s);
    if (!r) r = want_norm(p, &y->sink_scores, l, "attn_sinks", s->heads, attention && a->attention.sink_scores);
    if (!r) r = want_norm(p, &y->attn_sub_norm, l, "attn_sub_norm", s->heads * s->head_dim, a->block.sub_norms);
    if (!r) r = want_norm(p, &y->ffn_sub_norm, l, "ffn_sub_norm", s->ffn, a->block.sub_norms);
    return r ? r : want_norm(p, &y->ffn_post_norm, l, "post_ffw_norm", s->dim, a->post_norm);
}

static int want_biases(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const struct arch *a = p->s->desc;
    const bool experts = hparams_mixes(p->s, l);
    const enum arch_need ffn = !experts ? a->ffn_bias : a->experts.bias ? ARCH_MUST : ARCH_NEVER;
    int r = 0;
    if (p->s->parts[l] & LAYER_ATTENTION) {
        r = want_qkv_biases(p, y, l);
        if (!r) r = want_bias(p, &y->o, l, "attn_output", a->o_bias);
    }
    if (r || !(p->s->parts[l] & LAYER_FFN)) return r;
    if (experts) r = want_bias(p, &y->router, l, "ffn_gate_inp", ffn);
    if (!r && experts) r = want_choice_bias(p, y, l);
    if (!r && !a->block.no_gate) r = want_bias(p, &y->gate, l, experts ? "ffn_gate_exps" : "ffn_gate", ffn);
    if (!r) r = want_bias(p, &y->up, l, experts ? "ffn_up_exps" : "ffn_up", ffn);
    return r ? r : want_bias(p, &y->down, l, experts ? "ffn_down_exps" : "ffn_down", ffn);
}

/* A matrix of a layer. */
struct part {
    const char *name;
    struct matrix *m;
    uint32_t k, rows;
    struct source from;
};

static int want_parts(struct weights_plan *p, uint32_t l, const struct part *parts, size_t n)
{
    int r = 0;
    for (size_t i = 0; !r && i < n; i++)
        r = want_rows(p, parts[i].m, layer_name(l, parts[i].name, "weight").s, parts[i].k, parts[i].rows,
                      parts[i].from);
    return r;
}

static int want_attention(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const struct hparams *s = p->s;
    const uint32_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    const bool qkv = has_layer_tensor(p, l, "attn_qkv");
    const uint32_t head = s->head_dim;
    const struct part parts[] = {
        {qkv ? "attn_qkv" : "attn_q", &y->q, s->dim, q, {0, qkv ? q + 2 * kv : q, .stacked = 1}},
        {qkv ? "attn_qkv" : "attn_k", &y->k, s->dim, kv, {qkv ? q : 0, qkv ? q + 2 * kv : kv, .stacked = 1}},
        {qkv ? "attn_qkv" : "attn_v", &y->v, s->dim, kv, {qkv ? q + kv : 0, qkv ? q + 2 * kv : kv, .stacked = 1}},
        {"attn_output", &y->o, q, s->dim, {0, s->dim, .stacked = 1}},
    };
    const struct part gated[] = {
        {"attn_q", &y->q, s->dim, q, {0, 2 * q, 1, head, 2 * head}},
        {"attn_q", &y->q_gate, s->dim, q, {head, 2 * q, 1, head, 2 * head}},
    };
    if (!s->desc->attention.q_gate) return want_parts(p, l, parts, 4);
    if (qkv)
        return error_say(-EOPNOTSUPP, "%s: tensor 'blk.%u.attn_qkv.weight' is not supported in gated attention",
                         gguf_path(p->g), l);
    if (head % KERN_ROWS)
        return error_say(-EOPNOTSUPP, "%s: gated attention with heads of %u dimensions, which is no multiple of %u",
                         gguf_path(p->g), head, KERN_ROWS);
    int r = want_parts(p, l, gated, 2);
    return r ? r : want_parts(p, l, parts + 1, 3);
}

/* The matrices of the heads: two tensors, or in older files one with both, in which k_b lies transposed. It is kept in
 * F32 then, as the values of its codes. */
static int want_heads(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const struct hparams *s = p->s;
    const struct hparams_mla *m = &s->mla;
    const uint32_t both = m->nope + m->value;
    const struct part parts[] = {
        {"attn_k_b", &y->mla.k_b, m->nope, m->kv_rank, {0, m->kv_rank, s->heads}},
        {"attn_v_b", &y->mla.v_b, m->kv_rank, m->value, {0, m->value, s->heads}},
    };
    const struct part older = {"attn_kv_b", &y->mla.v_b, m->kv_rank, both * s->heads, {0, both * s->heads, 1}};
    if (has_layer_tensor(p, l, "attn_k_b") || !has_layer_tensor(p, l, "attn_kv_b")) return want_parts(p, l, parts, 2);
    int r = want_parts(p, l, &older, 1);
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
        i = reserve(p, t, (size_t)x->stacked * x->n_panels * x->panel_bytes, t->size / both * (j ? m->value : m->nope));
        i->matrix = x;
        i->row = j ? m->nope : 0;
        i->all = both;
        i->transposed = !j;
    }
    return 0;
}

static int want_latent_attention(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const struct hparams *s = p->s;
    const struct hparams_mla *m = &s->mla;
    const uint32_t q = (uint32_t)hparams_queries(s), k = m->q_rank ? m->q_rank : s->dim;
    const uint32_t out = (uint32_t)hparams_attended(s);
    const struct part parts[] = {
        {m->q_rank ? "attn_q_b" : "attn_q", &y->q, k, q, {0, q, 1}},
        {"attn_kv_a_mqa", &y->k, s->dim, s->head_dim, {0, s->head_dim, 1}},
        {"attn_output", &y->o, out, s->dim, {0, s->dim, 1}},
        {"attn_q_a", &y->mla.q_a, s->dim, m->q_rank, {0, m->q_rank, 1}},
    };
    int r = want_parts(p, l, parts, m->q_rank ? 4 : 3);
    if (!r) r = want_norm(p, &y->q_norm, l, "attn_q_a_norm", m->q_rank, m->q_rank > 0);
    if (!r) r = want_norm(p, &y->k_norm, l, "attn_kv_a_norm", m->kv_rank, true);
    return r ? r : want_heads(p, y, l);
}

static int want_feed_forward(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const uint32_t dim = p->s->dim, f = p->s->ffn;
    const bool alone = p->s->desc->block.no_gate, gate = p->s->desc->fused && !alone;
    const struct part parts[] = {
        {gate ? "ffn_up" : "ffn_gate", &y->gate, dim, f, {0, gate ? 2 * f : f, 1}},
        {"ffn_up", &y->up, dim, f, {gate ? f : 0, gate ? 2 * f : f, 1}},
        {"ffn_down", &y->down, f, dim, {0, dim, 1}},
    };
    return want_parts(p, l, parts + alone, 3 - alone);
}

static int want_experts(struct weights_plan *p, struct layer *y, uint32_t l)
{
    const struct hparams *s = p->s;
    const uint32_t dim = s->dim, n = s->experts.n, f = s->experts.ffn, one = s->experts.shared_ffn;
    if (has_layer_tensor(p, l, "ffn_gate.0"))
        return error_say(
            -EOPNOTSUPP,
            "%s: each expert is a tensor of its own ('%s'), as in files made before April 2024: take a newer "
            "file of this model, or convert it again",
            gguf_path(p->g), layer_name(l, "ffn_gate.0", "weight").s);
    const struct part parts[] = {
        {"ffn_gate_inp", &y->router, dim, n, {0, n, 1}},
        {"ffn_gate_exps", &y->gate, dim, f, {0, f, n}},
        {"ffn_up_exps", &y->up, dim, f, {0, f, n}},
        {"ffn_down_exps", &y->down, f, dim, {0, dim, n}},
        {"ffn_gate_shexp", &y->shared_gate, dim, one, {0, one, 1}},
        {"ffn_up_shexp", &y->shared_up, dim, one, {0, one, 1}},
        {"ffn_down_shexp", &y->shared_down, one, dim, {0, dim, 1}},
        {"ffn_gate_inp_shexp", &y->shared_router, dim, 1, {0, 1, 1}},
    };
    return want_parts(p, l, parts, !one ? 4 : s->desc->experts.shared == SHARED_GATED ? 8 : 7);
}

int weights_want_matrix(struct weights_plan *p, struct matrix *m, uint32_t l, const char *which, uint32_t k,
                        uint32_t rows)
{
    return want_matrix(p, m, layer_name(l, which, "weight").s, k, rows);
}

int weights_want_rows(struct weights_plan *p, const float **v, uint32_t l, const char *which, uint32_t n, uint32_t rows)
{
    char name[64];
    snprintf(name, sizeof(name), "blk.%u.%s", l, which);
    return want_vectors(p, v, name, n, rows);
}

bool weights_has(const struct weights_plan *p, uint32_t l, const char *which)
{
    char name[64];
    snprintf(name, sizeof(name), "blk.%u.%s", l, which);
    return gguf_find_tensor(p->g, name);
}

int weights_want_vector(struct weights_plan *p, const float **v, uint32_t l, const char *which, uint32_t n,
                        uint32_t rows)
{
    int r = weights_want_rows(p, v, l, which, n, rows ? rows : 1);
    if (!r) p->items[p->n - 1].turned = rows > 0;
    return r;
}

static int want_layer(struct weights_plan *p, uint32_t l)
{
    struct layer *y = &p->w->layers[l];
    const uint8_t parts = p->s->parts[l];
    int r = p->s->desc->activation == ACT_XIELU ? xielu_read(p->g, p->s->n_layers, l, y->xielu) : 0;
    if (!r) r = want_norms(p, y, l);
    if (!r && parts & LAYER_ATTENTION) r = p->s->mla.kv_rank ? want_latent_attention(p, y, l) : want_attention(p, y, l);
    if (!r && parts & LAYER_RECURRENT) r = recurrent_of(p->s)->want(p, &y->recurrent, l);
    if (!r && parts & LAYER_FFN) r = hparams_mixes(p->s, l) ? want_experts(p, y, l) : want_feed_forward(p, y, l);
    return r ? r : want_biases(p, y, l);
}

static int want_embedding(struct weights_plan *p)
{
    const struct hparams *s = p->s;
    if (s->tied) return want_matrix(p, &p->w->output, "token_embd.weight", s->dim, s->vocab);
    const struct gguf_tensor *t = NULL;
    int r = find(p, "token_embd.weight", s->dim, s->vocab, 1, &t);
    if (!r) r = type_of(p, t, &p->w->embd_type);
    if (r) return r;
    p->w->embd = t->data;
    return want_matrix(p, &p->w->output, "output.weight", s->dim, s->vocab);
}

static bool planned(const struct weights_plan *p, const struct gguf_tensor *t)
{
    if (t->data == p->w->embd && t->data) return true;
    for (size_t i = 0; i < p->n; i++)
        if (p->items[i].t == t) return true;
    return false;
}

/* Of a layer that is not computed. */
static bool left_out(const struct weights_plan *p, const struct gguf_tensor *t)
{
    char name[72];
    unsigned l;
    gguf_text(name, sizeof(name), t->name);
    return p->s->nextn && sscanf(name, "blk.%u.", &l) == 1 && l >= p->s->n_layers && l - p->s->n_layers < p->s->nextn;
}

/* Refuse a file with tensors that the forward pass does not use, such as extra biases and norms: answers would be
 * wrong. */
static int refuse_others(const struct weights_plan *p)
{
    char name[72];
    if (gguf_n_tensors(p->g) == p->tensors + (p->w->embd != NULL)) return 0;
    for (size_t i = 0; i < gguf_n_tensors(p->g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(p->g, i);
        if (planned(p, t) || left_out(p, t)) continue;
        gguf_text(name, sizeof(name), t->name);
        return error_say(-EOPNOTSUPP, "%s: tensor '%s' is not supported in a '%s' model", gguf_path(p->g), name,
                         p->s->arch);
    }
    return 0;
}

/* Factors of the RoPE frequencies: one set, or LongRoPE's two. */
static int want_rope(struct weights_plan *p)
{
    uint32_t n = p->s->rope_dim / 2;
    if (!p->s->rotates) return 0;
    if (!p->s->desc->rope_tensors)
        return p->s->rope.kind == ROPE_LONG
                   ? error_say(-EOPNOTSUPP, "%s: RoPE scaling 'longrope' is not supported in a '%s' model",
                               gguf_path(p->g), p->s->arch)
                   : 0;
    if (p->s->rope.kind == ROPE_LONG) {
        int r = want_vector(p, &p->w->rope_short, ROPE_SHORT_TENSOR, n);
        return r ? r : want_vector(p, &p->w->rope_long, ROPE_LONG_TENSOR, n);
    }
    return gguf_find_tensor(p->g, ROPE_TENSOR) ? want_vector(p, &p->w->rope_factors, ROPE_TENSOR, n) : 0;
}

int weights_plan(struct weights_plan *p)
{
    int r = want_embedding(p);
    for (uint32_t l = 0; !r && l < p->s->n_layers; l++) r = want_layer(p, l);
    char norm[64];
    snprintf(norm, sizeof(norm), "%s.weight", p->s->desc->output_norm ? p->s->desc->output_norm : "output_norm");
    if (!r) r = want_vector(p, &p->w->output_norm, norm, p->s->dim);
    snprintf(norm, sizeof(norm), "%s.bias", p->s->desc->output_norm ? p->s->desc->output_norm : "output_norm");
    if (!r) r = want_norm_bias(p, &p->w->output_norm_bias, norm);
    if (!r && p->s->desc->block.output_bias) r = want_vector(p, &p->w->output.bias, "output.bias", p->s->vocab);
    if (!r) r = want_rope(p);
    return r ? r : refuse_others(p);
}

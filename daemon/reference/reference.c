/* SPDX-License-Identifier: MIT */
#include "daemon/reference/reference.h"
#include "daemon/model/xielu.h"
#include "daemon/reference/reference-pass.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

#define PI 3.141592653589793

int reference_new(struct reference **out, const struct gguf *g)
{
    struct reference *r = calloc(1, sizeof(*r));
    if (!r) return error_origin(-ENOMEM);
    r->g = g;
    r->ctx = UINT32_MAX;
    int e = hparams_read(&r->s, g);
    if (!e) e = blas_open(&r->blas);
    if (e) {
        reference_free(r);
        return e;
    }
    *out = r;
    return 0;
}

void reference_context(struct reference *r, uint32_t ctx)
{
    r->ctx = ctx;
}

void reference_places(struct reference *r, const struct item_place *places)
{
    r->places = places;
}

struct reference *reference_free(struct reference *r)
{
    if (!r) return NULL;
    blas_close(&r->blas);
    free(r->matrix);
    free(r);
    return NULL;
}

static int tensor(const struct reference *r, const struct gguf_tensor **out, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int tensor(const struct reference *r, const struct gguf_tensor **out, const char *fmt, ...)
{
    char name[64];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    *out = gguf_find_tensor(r->g, name);
    return *out ? 0 : error_say(-EINVAL, "tensor '%s' is missing", name);
}

/* out[n][rows] = in[n][dims[0]] * t^T for @rows rows of t from @row on, dequantized all at once. */
static int product(struct pass *p, float *out, const float *in, const struct gguf_tensor *t, uint64_t row,
                   uint64_t n_rows)
{
    struct reference *r = p->r;
    size_t need = t->dims[0] * n_rows;
    if (need > r->matrix_cap) {
        free(r->matrix);
        r->matrix_cap = 0;
        r->matrix = malloc(need * sizeof(float));
        if (!r->matrix) return error_say(-ENOMEM, "out of memory: %zu bytes for a matrix in f32", need * sizeof(float));
        r->matrix_cap = need;
    }
    int e = reference_rows(t, row, n_rows, r->matrix);
    if (e) return e;
    int k = (int)t->dims[0], rows = (int)n_rows;
    const struct blas_product sgemm = {out, in, r->matrix, rows, k, k, (int)p->n, rows, k, true};
    blas_multiply(&r->blas, &sgemm);
    return 0;
}

int reference_vector(const struct pass *p, float **out, const char *which, uint64_t row)
{
    char name[96];
    snprintf(name, sizeof(name), "blk.%u.%s", p->layer, which);
    const struct gguf_tensor *t = gguf_find_tensor(p->r->g, name);
    *out = NULL;
    if (!t) return 0;
    if (row >= t->dims[1]) return error_say(-EINVAL, "tensor '%s' has too few rows", name);
    *out = malloc(t->dims[0] * sizeof(float));
    return *out ? reference_rows(t, row, 1, *out) : error_origin(-ENOMEM);
}

int reference_vectors(struct pass *p, float **out, const char *which)
{
    const struct gguf_tensor *t;
    int e = tensor(p->r, &t, "blk.%u.%s", p->layer, which);
    if (e) return e;
    *out = malloc(t->dims[0] * t->dims[1] * sizeof(float));
    return *out ? reference_rows(t, 0, t->dims[1], *out) : error_origin(-ENOMEM);
}

int reference_product(struct pass *p, float *out, const float *in, const char *which, uint64_t row, uint64_t rows,
                      uint64_t bias_row)
{
    const struct gguf_tensor *t;
    _cleanup_(freep) float *bias = NULL;
    char name[64];
    int e = tensor(p->r, &t, "blk.%u.%s.weight", p->layer, which);
    snprintf(name, sizeof(name), "%s.bias", which);
    if (!e && row + rows > t->dims[1] * t->dims[2]) e = error_say(-EINVAL, "tensor '%s' has too few rows", which);
    if (!e) e = product(p, out, in, t, row, rows);
    if (!e) e = reference_vector(p, &bias, name, bias_row);
    const size_t skip = t && t->dims[2] == 1 ? row : 0; /* the bias of a fused tensor is that of all its rows */
    for (size_t i = 0; !e && bias && i < p->n * rows; i++) out[i] += bias[skip + i % rows];
    return e;
}

/* The layer's product with @which and its bias; with @fused, where the file has that, with rows of it from @row on. */
static int product_of(struct pass *p, float *out, const float *in, const char *which, const char *fused, uint64_t row,
                      uint64_t rows)
{
    char name[64];
    snprintf(name, sizeof(name), "blk.%u.%s.weight", p->layer, fused ? fused : which);
    if (!fused || !gguf_find_tensor(p->r->g, name)) row = 0, fused = NULL;
    return reference_product(p, out, in, fused ? fused : which, row, rows, 0);
}

/* x += h, normed (unless @post_norm is NULL) and scaled. */
static int add(struct pass *p, const char *post_norm)
{
    const struct hparams *s = &p->r->s;
    int e = post_norm ? reference_norm(p, p->h, p->h, p->n, s->dim, post_norm) : 0;
    for (size_t i = 0; !e && i < (size_t)p->n * s->dim; i++) p->x[i] += s->scale.residual * p->h[i];
    return e;
}

static double activate(enum arch_activation a, double x, double up)
{
    if (a == ACT_RELU_SQR) return x > 0 ? x * x : 0;
    if (a == ACT_GELU) return 0.5 * x * (1 + tanh(sqrt(2 / PI) * (x + 0.044715 * x * x * x))) * up;
    if (a == ACT_SILU) return x / (1 + exp(-x)) * up;
    x = fmin(x, 7);
    return x / (1 + exp(-1.702 * x)) * (fmax(fmin(up, 7), -7) + 1);
}

void reference_activate(const struct hparams *s, float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) gate[i] = (float)activate(s->desc->activation, gate[i], up[i]);
}

/* p->q, and the gates of the queries that attn_q has between them. */
static int gated_queries(struct pass *p, float *gate)
{
    const struct hparams *s = &p->r->s;
    const size_t q = (size_t)s->heads * s->head_dim, all = p->n * q;
    _cleanup_(freep) float *both = malloc(2 * all * sizeof(*both));
    if (!both) return error_origin(-ENOMEM);
    int e = product_of(p, both, p->h, "attn_q", NULL, 0, 2 * q);
    for (size_t i = 0; !e && i < all; i++) {
        const float *head = both + i / s->head_dim * 2 * s->head_dim + i % s->head_dim;
        p->q[i] = head[0];
        gate[i] = head[s->head_dim];
    }
    return e;
}

static int latent_block(struct pass *p)
{
    int e = reference_norm(p, p->h, p->x, p->n, p->r->s.dim, "attn_norm");
    if (!e) e = reference_mla(p);
    return e ? e : add(p, p->r->s.desc->post_norm ? "post_attention_norm" : NULL);
}

static int attention_block(struct pass *p)
{
    const struct hparams *s = &p->r->s;
    uint64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    _cleanup_(freep) float *gate = malloc(p->n * q * sizeof(*gate));
    int e = gate ? reference_norm(p, p->h, p->x, p->n, s->dim, "attn_norm") : error_origin(-ENOMEM);
    if (!e)
        e = s->desc->attention.q_gate ? gated_queries(p, gate) : product_of(p, p->q, p->h, "attn_q", "attn_qkv", 0, q);
    if (!e) e = product_of(p, p->k, p->h, "attn_k", "attn_qkv", q, kv);
    if (!e) e = product_of(p, p->v, p->h, "attn_v", "attn_qkv", q + kv, kv);
    if (!e && !s->desc->block.qk_after_rope) e = reference_norm_heads(p);
    if (e) return e;
    _cleanup_(freep) float *sinks = NULL;
    if (s->desc->attention.sink_scores) e = reference_vector(p, &sinks, "attn_sinks.weight", 0);
    if (e) return e;
    p->sink_scores = sinks;
    e = reference_attention(p);
    if (!e) e = reference_norm(p, p->att, p->att, p->n, q, "attn_sub_norm");
    for (size_t i = 0; s->desc->attention.q_gate && i < p->n * q; i++)
        p->att[i] = (float)(p->att[i] / (1 + exp(-gate[i])));
    if (!e) e = product_of(p, s->parallel ? p->beside : p->h, p->att, "attn_output", NULL, 0, s->dim);
    if (s->parallel) return e;
    return e ? e : add(p, s->desc->post_norm ? "post_attention_norm" : NULL);
}

/* @in [n][dim]: the residual stream that the layer began with. */
static int recurrent_block(struct pass *p, const float *in)
{
    const struct hparams *s = &p->r->s;
    int e = reference_norm(p, p->h, in, p->n, s->dim, "attn_norm");
    if (!e) e = reference_recurrent(p);
    return e ? e : add(p, s->desc->post_norm ? "post_attention_norm" : NULL);
}

static int activate_xielu(struct pass *p)
{
    float by[4];
    int e = xielu_read(p->r->g, p->r->s.n_layers, p->layer, by);
    for (size_t i = 0; !e && i < (size_t)p->n * p->r->s.ffn; i++) {
        const double x = p->gate[i];
        p->gate[i] = (float)(by[2] * x + (x > 0 ? by[0] * x * x : by[1] * (expm1(fmin(x, by[3])) - x)));
    }
    return e;
}

static int feed_forward_block(struct pass *p)
{
    const struct hparams *s = &p->r->s;
    const bool alone = s->desc->block.no_gate; /* the activation is of up */
    const char *fused = s->desc->fused && !alone ? "ffn_up" : NULL;
    int e = product_of(p, p->gate, p->h, alone ? "ffn_up" : "ffn_gate", fused, 0, s->ffn);
    for (size_t i = 0; alone && i < (size_t)p->n * s->ffn; i++) p->up[i] = 1;
    if (!e && !alone) e = product_of(p, p->up, p->h, "ffn_up", fused, s->ffn, s->ffn);
    if (!e && s->desc->activation == ACT_XIELU)
        e = activate_xielu(p);
    else if (!e)
        reference_activate(s, p->gate, p->up, (size_t)p->n * s->ffn);
    if (!e) e = reference_norm(p, p->gate, p->gate, p->n, s->ffn, "ffn_sub_norm");
    return e ? e : product_of(p, p->h, p->gate, "ffn_down", NULL, 0, s->dim);
}

static int second_block(struct pass *p)
{
    const struct hparams *s = &p->r->s;
    const char *name = s->parallel && s->desc->block.parallel != PARALLEL_BY_KEY ? "attn_norm"
                       : s->desc->ffn_norm                                       ? s->desc->ffn_norm
                                                                                 : "ffn_norm";
    int e = reference_norm(p, p->h, p->x, p->n, s->dim, name);
    if (!e) e = hparams_mixes(s, p->layer) ? reference_experts(p) : feed_forward_block(p);
    if (!e) e = add(p, s->desc->post_norm ? "post_ffw_norm" : NULL);
    if (!e && s->parallel) memcpy(p->h, p->beside, (size_t)p->n * s->dim * sizeof(float));
    return e || !s->parallel ? e : add(p, NULL);
}

static int output_block(struct pass *p, const struct gguf_tensor *embd, float *logits)
{
    const struct hparams *s = &p->r->s;
    const struct gguf_tensor *out = gguf_find_tensor(p->r->g, "output.weight");
    int e = reference_output_norm(p);
    if (e) return e;
    const struct gguf_tensor *bias = gguf_find_tensor(p->r->g, "output.bias");
    e = product(p, logits, p->h, out ? out : embd, 0, s->vocab);
    for (size_t i = 0; !e && i < (size_t)p->n * s->vocab; i++) {
        float add = 0;
        if (bias) memcpy(&add, (const uint8_t *)bias->data + i % s->vocab * sizeof(add), sizeof(add)); /* F32 */
        double v = ((double)logits[i] + add) * s->scale.logits;
        logits[i] = (float)(s->cap.logits > 0 ? s->cap.logits * tanh(v / s->cap.logits) : v);
    }
    return e;
}

/* The first residual of each position. */
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
        if (e) return e;
        for (size_t j = 0; j < s->dim; j++) x[j] *= s->scale.embedding;
    }
    return 0;
}

static int run(struct pass *p, const int32_t *ids, const float *embd, float *logits)
{
    const struct hparams *s = &p->r->s;
    const struct gguf_tensor *table;
    int e = reference_frequencies(p);
    if (!e) e = tensor(p->r, &table, "token_embd.weight");
    if (!e) e = embed(p, table, ids, embd);
    for (p->layer = 0; !e && p->layer < s->n_layers; p->layer++) {
        const uint8_t parts = s->parts[p->layer];
        if (parts & LAYER_RECURRENT) memcpy(p->beside, p->x, (size_t)p->n * s->dim * sizeof(*p->x));
        if (parts & LAYER_ATTENTION) e = s->mla.kv_rank ? latent_block(p) : attention_block(p);
        if (!e && parts & LAYER_RECURRENT) e = recurrent_block(p, p->beside);
        if (!e && parts & LAYER_FFN) e = second_block(p);
    }
    return e ? e : output_block(p, table, logits);
}

static int forward(struct reference *r, const int32_t *ids, const float *embd, const uint32_t *ends, uint32_t n,
                   uint32_t sinks, uint32_t window, float *logits)
{
    const struct hparams *s = &r->s;
    if (!window || sinks > INT32_MAX || window > INT32_MAX) return error_say(-EINVAL, "a window of %u", window);
    if (sinks > n) sinks = n, window = n; /* nothing slides */
    if (s->mla.kv_rank && sinks && window < n)
        return error_say(-EOPNOTSUPP, "the reference pass does not rotate latent attention");
    size_t q = (size_t)s->heads * s->head_dim, kv = (size_t)s->kv_heads * s->head_dim;
    size_t ffn = s->ffn > s->experts.ffn ? s->ffn : s->experts.ffn;
    if (ffn < s->experts.shared_ffn) ffn = s->experts.shared_ffn;
    size_t floats = n * (3ul * s->dim + 2 * q + 2 * kv + n + 2 * ffn) + sinks * kv;
    _cleanup_(freep) float *mem = malloc(floats * sizeof(float));
    _cleanup_(freep) double *freqs = malloc((s->rope_dim + 1) * sizeof(double));
    if (!mem || !freqs)
        return error_say(-ENOMEM, "out of memory: %zu bytes for the reference pass", floats * sizeof(float));
    struct pass p = {.r = r,
                     .n = n,
                     .sinks = sinks,
                     .window = window,
                     .ends = ends,
                     .x = mem,
                     .freqs = {freqs, freqs + s->rope_dim / 2}};
    p.h = p.x + (size_t)n * s->dim;
    p.beside = p.h + (size_t)n * s->dim;
    p.q = p.beside + (size_t)n * s->dim;
    p.k = p.q + n * q;
    p.v = p.k + n * kv;
    p.att = p.v + n * kv;
    p.score = p.att + n * q;
    p.gate = p.score + (size_t)n * n;
    p.up = p.gate + n * ffn;
    p.sink_k = p.up + n * ffn;
    return run(&p, ids, embd, logits);
}

int reference_rotate(struct reference *r, const int32_t *tokens, uint32_t n, uint32_t sinks, uint32_t window,
                     float *logits)
{
    return forward(r, tokens, NULL, NULL, n, sinks, window, logits);
}

int reference_items(struct reference *r, const int32_t *ids, const float *embd, const uint32_t *ends, uint32_t n,
                    float *logits)
{
    return forward(r, ids, embd, ends, n, 0, n ? n : 1, logits); /* a window of all tokens */
}

int reference_forward(struct reference *r, const int32_t *tokens, uint32_t n, float *logits)
{
    return reference_items(r, tokens, NULL, NULL, n, logits);
}

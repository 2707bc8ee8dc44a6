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
    return reference_adapt(p, out, in, t, row, n_rows);
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

int reference_shared_product(struct pass *p, float *out, const float *in, const char *name, uint64_t row, uint64_t rows)
{
    const struct gguf_tensor *t;
    int e = tensor(p->r, &t, "%s", name);
    return e ? e : product(p, out, in, t, row, rows);
}

int reference_shared_row(const struct pass *p, float *out, const char *name, uint64_t row)
{
    const struct gguf_tensor *t;
    int e = tensor(p->r, &t, "%s", name);
    return e ? e : reference_rows(t, row, 1, out);
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

/* x += h, normed (unless @post_norm is NULL) and scaled; in an encoder whose norms are of x itself, with that norm. */
static int add(struct pass *p, const char *post_norm)
{
    const struct hparams *s = &p->r->s;
    if (s->desc->encoder.outer_norms) return reference_outer_norm(p, post_norm);
    int e = post_norm ? reference_norm(p, p->h, p->h, p->n, s->dim, post_norm) : 0;
    for (size_t i = 0; !e && i < (size_t)p->n * s->dim; i++) p->x[i] += s->scale.residual * p->h[i];
    return e;
}

static double activate(enum arch_activation a, double x, double up)
{
    if (a == ACT_RELU) return (x < 0 ? 0 : x) * up;
    if (a == ACT_RELU_SQR) return x < 0 ? 0 : x * x;
    if (a == ACT_GELU_ERF) return 0.5 * x * (1 + erf(x / sqrt(2))) * up;
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

/* Keep K and V, which is rotated, for layers without own ones; or take what is kept. */
static void keep(struct pass *p, bool keep)
{
    const struct hparams *s = &p->r->s;
    const size_t kv = (size_t)p->n * p->heads.kv_heads * p->heads.head_dim;
    float *k = p->kept[hparams_window(s, p->layer) > 0], *v = k + kv;
    memcpy(keep ? k : p->k, keep ? p->k : k, kv * sizeof(*k));
    memcpy(keep ? v : p->v, keep ? p->v : v, kv * sizeof(*v));
}

/* p->k and p->v of @kv values a token, of p->h; @q: those of the queries. */
static int keys_and_values(struct pass *p, uint64_t q, uint64_t kv)
{
    const struct hparams *s = &p->r->s;
    if (!hparams_own_kv(s, p->layer)) {
        keep(p, false);
        return 0;
    }
    char name[64];
    snprintf(name, sizeof(name), "blk.%u.attn_v.weight", p->layer);
    const bool same = s->desc->attention.k_is_v && !gguf_find_tensor(p->r->g, name);
    int e = product_of(p, p->k, p->h, "attn_k", "attn_qkv", q, kv);
    if (!e) e = product_of(p, p->v, p->h, same ? "attn_k" : "attn_v", "attn_qkv", q + kv, kv);
    if (!e && s->desc->attention.v_norm)
        reference_norm_by(s, p->v, p->v, (size_t)p->n * p->heads.kv_heads, p->heads.head_dim, NULL);
    return e;
}

static int attention_block(struct pass *p)
{
    const struct hparams *s = &p->r->s;
    const uint64_t q = s->heads * p->heads.head_dim, kv = p->heads.kv_heads * p->heads.head_dim;
    _cleanup_(freep) float *gate = malloc(p->n * q * sizeof(*gate));
    int e = gate ? reference_norm(p, p->h, p->x, p->n, s->dim, "attn_norm") : error_origin(-ENOMEM);
    if (!e)
        e = s->desc->attention.q_gate == Q_GATE_BEHIND ? gated_queries(p, gate)
                                                       : product_of(p, p->q, p->h, "attn_q", "attn_qkv", 0, q);
    if (!e && s->desc->attention.q_gate == Q_GATE_APART) e = product_of(p, gate, p->h, "attn_gate", NULL, 0, q);
    if (!e) e = keys_and_values(p, q, kv);
    if (!e && !s->desc->block.qk_after_rope) e = reference_norm_heads(p);
    if (e) return e;
    _cleanup_(freep) float *sinks = NULL;
    if (s->desc->attention.sink_scores) e = reference_vector(p, &sinks, "attn_sinks.weight", 0);
    if (e) return e;
    p->sink_scores = sinks;
    e = reference_attention(p);
    if (!e && s->by_layer.shared_kv && hparams_own_kv(s, p->layer)) keep(p, true);
    if (!e) e = reference_norm(p, p->att, p->att, p->n, q, "attn_sub_norm");
    for (size_t i = 0; s->desc->attention.q_gate && i < p->n * q; i++)
        p->att[i] = (float)(p->att[i] / (1 + exp(-gate[i])));
    if (!e) e = product_of(p, s->parallel ? p->beside : p->h, p->att, "attn_output", NULL, 0, s->dim);
    if (s->parallel) return e;
    const bool outer = s->desc->encoder.outer_norms;
    return e ? e : add(p, outer ? "attn_output_norm" : s->desc->post_norm ? "post_attention_norm" : NULL);
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
    const uint32_t ffn = hparams_ffn(s, p->layer);
    char apart[64];
    snprintf(apart, sizeof(apart), "blk.%u.ffn_gate.weight", p->layer);
    const char *fused = s->desc->fused && !alone && !gguf_find_tensor(p->r->g, apart) ? "ffn_up" : NULL;
    int e = product_of(p, p->gate, p->h, alone ? "ffn_up" : "ffn_gate", fused, 0, ffn);
    for (size_t i = 0; alone && i < (size_t)p->n * ffn; i++) p->up[i] = 1;
    if (!e && !alone) e = product_of(p, p->up, p->h, "ffn_up", fused, ffn, ffn);
    if (!e && hparams_sparse(s, p->layer)) reference_sparsify(p, ffn);
    if (!e && s->desc->activation == ACT_XIELU)
        e = activate_xielu(p);
    else if (!e)
        reference_activate(s, p->gate, p->up, (size_t)p->n * ffn);
    if (!e) e = reference_norm(p, p->gate, p->gate, p->n, ffn, "ffn_sub_norm");
    return e ? e : product_of(p, p->h, p->gate, "ffn_down", NULL, 0, s->dim);
}

static int second_block(struct pass *p)
{
    const struct hparams *s = &p->r->s;
    const char *name = s->parallel && s->desc->block.parallel != PARALLEL_BY_KEY ? "attn_norm"
                       : s->desc->ffn_norm                                       ? s->desc->ffn_norm
                                                                                 : "ffn_norm";
    const bool mixes = hparams_mixes(s, p->layer), beside = mixes && s->desc->experts.beside;
    int e = reference_norm(p, p->h, p->x, p->n, s->dim, name);
    if (!e && beside) e = reference_experts_beside(p, feed_forward_block);
    if (!e && !beside) e = mixes ? reference_experts(p) : feed_forward_block(p);
    const bool outer = s->desc->encoder.outer_norms;
    if (!e) e = add(p, outer ? "layer_output_norm" : s->desc->post_norm ? "post_ffw_norm" : NULL);
    if (!e && s->parallel) memcpy(p->h, p->beside, (size_t)p->n * s->dim * sizeof(float));
    return e || !s->parallel ? e : add(p, NULL);
}

/* The layer's embedding of each token and the factor of its output, where there are such. */
static int last_block(struct pass *p)
{
    const struct hparams *s = &p->r->s;
    _cleanup_(freep) float *scale = NULL;
    int e = s->per_layer ? reference_layer_embedding(p, p->x) : 0;
    if (!e && s->per_layer) e = add(p, NULL);
    if (!e && s->desc->block.out_scale) e = reference_vector(p, &scale, "layer_output_scale.weight", 0);
    for (size_t i = 0; !e && scale && i < (size_t)p->n * s->dim; i++) p->x[i] *= *scale;
    return e;
}

static int output_block(struct pass *p, const struct gguf_tensor *embd, float *logits)
{
    const struct hparams *s = &p->r->s;
    const struct gguf_tensor *out = gguf_find_tensor(p->r->g, "output.weight");
    int e = 0;
    if (s->desc->encoder.outer_norms)
        memcpy(p->h, p->x, (size_t)p->n * s->dim * sizeof(*p->h));
    else
        e = reference_output_norm(p);
    if (e) return e;
    if (p->rows) memcpy(p->rows, p->h, (size_t)p->n * s->dim * sizeof(*p->h));
    if (!logits) return 0;
    if (s->mtp.first) reference_next(p);
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

static int run(struct pass *p, const int32_t *ids, const float *embd, float *logits)
{
    const struct hparams *s = &p->r->s;
    const struct gguf_tensor *table;
    const bool altup = s->altup.streams > 0;
    int e = reference_frequencies(p);
    if (!e) e = tensor(p->r, &table, "%s", hparams_embedding(s, p->r->g));
    if (!e) e = reference_embed(p, table, ids, embd);
    if (!e && s->per_layer) e = reference_embed_layers(p, ids);
    if (!e && altup) e = reference_altup_begin(p);
    p->layer = s->mtp.first;
    if (!e && s->mtp.first) e = reference_pairs(p);
    for (; !e && p->layer < s->n_layers; p->layer++) {
        const uint8_t parts = s->by_layer.parts[p->layer];
        if (s->desc->experts.early && hparams_mixes(s, p->layer))
            e = reference_product(p, p->route, p->x, "ffn_gate_inp", 0, s->experts.n, 0);
        if (parts & LAYER_RECURRENT) memcpy(p->beside, p->x, (size_t)p->n * s->dim * sizeof(*p->x));
        p->heads = hparams_heads(s, p->layer);
        if (!e && altup) e = reference_altup_predict(p);
        if (!e && altup) e = reference_laurel(p);
        if (!e && parts & LAYER_ATTENTION) e = s->mla.kv_rank ? latent_block(p) : attention_block(p);
        if (altup) reference_laurel_add(p);
        if (!e && parts & LAYER_RECURRENT) e = recurrent_block(p, p->beside);
        if (!e && parts & LAYER_FFN) e = second_block(p);
        if (!e) e = altup ? reference_altup_correct(p) : last_block(p);
    }
    if (!e && altup) e = reference_altup_end(p);
    return e ? e : output_block(p, table, logits);
}

/* What a pass reads and writes. */
struct task {
    const int32_t *ids;
    const float *embd;
    const uint32_t *ends;
    const uint8_t *types;
    uint32_t n, sinks, window;
    float *logits, *rows; /* NULL: none */
};

static int forward(struct reference *r, const struct task *t)
{
    const struct hparams *s = &r->s;
    const uint32_t n = t->n;
    uint32_t sinks = t->sinks, window = t->window;
    if (!window || sinks > INT32_MAX || window > INT32_MAX) return error_say(-EINVAL, "a window of %u", window);
    if (sinks > n) sinks = n, window = n; /* nothing slides */
    if (s->mla.kv_rank && sinks && window < n)
        return error_say(-EOPNOTSUPP, "the reference pass does not rotate latent attention");
    const struct hparams_heads other = hparams_heads_of(s, true);
    size_t q = (size_t)s->heads * hparams_widest(s), kv = (size_t)s->kv_heads * s->head_dim;
    if (kv < (size_t)other.kv_heads * other.head_dim) kv = (size_t)other.kv_heads * other.head_dim;
    size_t ffn = s->ffn > s->experts.ffn ? s->ffn : s->experts.ffn;
    if (ffn < s->experts.shared_ffn) ffn = s->experts.shared_ffn;
    size_t kept = s->by_layer.shared_kv ? 2 * n * kv : 0;
    size_t floats = n * (3ul * s->dim + 2 * q + 2 * kv + n + 2 * ffn + s->experts.n) + sinks * kv + 2 * kept;
    _cleanup_(freep) float *mem = malloc(floats * sizeof(float));
    _cleanup_(freep) double *freqs = malloc((s->rope_dim + other.rope_dim + 1) * sizeof(double));
    if (!mem || !freqs)
        return error_say(-ENOMEM, "out of memory: %zu bytes for the reference pass", floats * sizeof(float));
    struct pass p = {.r = r,
                     .n = n,
                     .sinks = sinks,
                     .window = window,
                     .ends = t->ends,
                     .types = t->types,
                     .rows = t->rows,
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
    p.route = p.up + n * ffn;
    p.sink_k = p.route + (size_t)n * s->experts.n;
    p.kept[0] = p.sink_k + sinks * kv;
    p.kept[1] = p.kept[0] + kept;
    int e = run(&p, t->ids, t->embd, t->logits);
    free(p.embedding);
    free(p.streams);
    free(p.side);
    return e;
}

int reference_rotate(struct reference *r, const int32_t *tokens, uint32_t n, uint32_t sinks, uint32_t window,
                     float *logits)
{
    return forward(r, &(struct task){.ids = tokens, .n = n, .sinks = sinks, .window = window, .logits = logits});
}

int reference_items(struct reference *r, const int32_t *ids, const float *embd, const uint32_t *ends, uint32_t n,
                    float *logits)
{
    /* a window of all tokens */
    return forward(
        r, &(struct task){.ids = ids, .embd = embd, .ends = ends, .n = n, .window = n ? n : 1, .logits = logits});
}

int reference_text(struct reference *r, const int32_t *tokens, const uint8_t *types, uint32_t n, float *rows)
{
    _cleanup_(freep) uint32_t *ends = malloc((n + 1) * sizeof(*ends));
    if (!ends) return error_origin(-ENOMEM);
    for (uint32_t i = 0; i < n; i++) ends[i] = n;
    return forward(r, &(struct task){.ids = tokens,
                                     .ends = r->s.embedding.whole ? ends : NULL,
                                     .types = types,
                                     .n = n,
                                     .window = n ? n : 1,
                                     .rows = rows});
}

int reference_forward(struct reference *r, const int32_t *tokens, uint32_t n, float *logits)
{
    return reference_items(r, tokens, NULL, NULL, n, logits);
}

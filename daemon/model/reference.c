/* SPDX-License-Identifier: MIT */
#include "daemon/model/reference.h"
#include "daemon/model/reference-weights.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

struct reference {
    const struct gguf *g;
    struct shape s;
    struct blas blas;
    float *matrix; /* scratch: one dequantized matrix at a time */
    size_t matrix_cap;
};

/* Activations of one pass, n tokens. */
struct pass {
    struct reference *r;
    uint32_t n;
    uint32_t sinks, window; /* window 0: none */
    float *x, *h;           /* [n][dim] residual stream, normed */
    float *q, *k, *v;       /* [n][heads or kv_heads][head_dim] */
    float *att;             /* [n][heads][head_dim] */
    float *score;           /* [n][n] */
    float *gate, *up;       /* [n][ffn] */
    float *sink_k;          /* [sinks][kv_heads][head_dim] keys before they are rotated */
    double *freqs;          /* [rope_dim/2] radians per position */
};

int reference_new(struct reference **out, const struct gguf *g)
{
    struct reference *r = calloc(1, sizeof(*r));
    if (!r) return error_origin(-ENOMEM);
    r->g = g;
    int e = shape_read(&r->s, g);
    if (!e) e = blas_open(&r->blas);
    if (e) {
        reference_free(r);
        return e;
    }
    *out = r;
    return 0;
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

/* out[n][rows of t] = in[n][dims[0]] * t^T, the matrix dequantized whole. */
static int product(struct pass *p, float *out, const float *in, const struct gguf_tensor *t)
{
    struct reference *r = p->r;
    size_t need = t->dims[0] * t->dims[1];
    if (need > r->matrix_cap) {
        free(r->matrix);
        r->matrix_cap = 0;
        r->matrix = malloc(need * sizeof(float));
        if (!r->matrix) return error_say(-ENOMEM, "out of memory: %zu bytes for a matrix in f32", need * sizeof(float));
        r->matrix_cap = need;
    }
    int e = reference_rows(t, 0, t->dims[1], r->matrix);
    if (e) return e;
    int k = (int)t->dims[0], rows = (int)t->dims[1];
    blas_product(&r->blas, out, rows, in, k, r->matrix, k, (int)p->n, rows, k, true);
    return 0;
}

static int product_of(struct pass *p, float *out, const float *in, uint32_t layer, const char *which)
{
    const struct gguf_tensor *t;
    int e = tensor(p->r, &t, "blk.%u.%s.weight", layer, which);
    return e ? e : product(p, out, in, t);
}

static int norm(struct pass *p, const struct gguf_tensor *t)
{
    uint32_t dim = p->r->s.dim;
    _cleanup_(freep) float *w = malloc(dim * sizeof(float));
    if (!w) return error_origin(-ENOMEM);
    int e = reference_rows(t, 0, 1, w);
    if (e) return e;
    for (uint32_t i = 0; i < p->n; i++) {
        const float *x = p->x + (size_t)i * dim;
        double ss = 0;
        for (uint32_t d = 0; d < dim; d++) ss += (double)x[d] * x[d];
        double scale = 1 / sqrt(ss / dim + p->r->s.rms_eps);
        for (uint32_t d = 0; d < dim; d++) p->h[(size_t)i * dim + d] = (float)(x[d] * scale * w[d]);
    }
    return 0;
}

static int make_freqs(struct pass *p)
{
    const struct shape *s = &p->r->s;
    const struct gguf_tensor *t = gguf_find_tensor(p->r->g, "rope_freqs.weight");
    _cleanup_(freep) float *factor = malloc(s->head_dim * sizeof(float));
    if (!factor) return error_origin(-ENOMEM);
    for (uint32_t i = 0; i < s->rope_dim / 2; i++) factor[i] = 1;
    if (t && t->dims[0] == s->rope_dim / 2) {
        int e = reference_rows(t, 0, 1, factor);
        if (e) return e;
    }
    for (uint32_t j = 0; j < s->rope_dim / 2; j++)
        p->freqs[j] = s->rope_scale * pow(s->rope_base, -2.0 * j / s->rope_dim) / factor[j];
    return 0;
}

/* One head at a position. */
static void rotate(const struct pass *p, float *x, double pos)
{
    for (uint32_t j = 0; j < p->r->s.rope_dim / 2; j++) {
        double a = pos * p->freqs[j], x0 = x[2 * j], x1 = x[2 * j + 1];
        x[2 * j] = (float)(x0 * cos(a) - x1 * sin(a));
        x[2 * j + 1] = (float)(x0 * sin(a) + x1 * cos(a));
    }
}

static void rope(const struct pass *p, float *v, uint32_t heads)
{
    for (uint32_t i = 0; i < p->n; i++)
        for (uint32_t h = 0; h < heads; h++) rotate(p, v + ((size_t)i * heads + h) * p->r->s.head_dim, i);
}

static bool slides(const struct pass *p, uint32_t i)
{
    return p->window && i >= p->sinks + p->window;
}

static bool sees(const struct pass *p, uint32_t i, uint32_t j)
{
    return j <= i && (!slides(p, i) || j < p->sinks || j > i - p->window);
}

/* Scores of the sinks for those that see them apart: their keys are turned to where they would stand. */
static void score_sinks(struct pass *p, uint32_t head, uint32_t kv_head)
{
    const struct shape *s = &p->r->s;
    float key[1024]; /* shape.c: no head is wider */
    for (uint32_t i = 0; i < p->n; i++)
        for (uint32_t j = 0; slides(p, i) && j < p->sinks; j++) {
            const float *q = p->q + ((size_t)i * s->heads + head) * s->head_dim;
            double sum = 0;
            memcpy(key, p->sink_k + ((size_t)j * s->kv_heads + kv_head) * s->head_dim, s->head_dim * sizeof(*key));
            rotate(p, key, (double)(i - p->window + 1 - p->sinks + j));
            for (uint32_t d = 0; d < s->head_dim; d++) sum += (double)q[d] * key[d];
            p->score[(size_t)i * p->n + j] = (float)sum;
        }
}

static void softmax(struct pass *p, double scale)
{
    for (uint32_t i = 0; i < p->n; i++) {
        float *row = p->score + (size_t)i * p->n;
        double max = -INFINITY, sum = 0;
        for (uint32_t j = 0; j <= i; j++)
            if (sees(p, i, j)) max = fmax(max, row[j] * scale);
        for (uint32_t j = 0; j <= i; j++)
            if (sees(p, i, j)) sum += exp(row[j] * scale - max);
        for (uint32_t j = 0; j < p->n; j++) row[j] = sees(p, i, j) ? (float)(exp(row[j] * scale - max) / sum) : 0;
    }
}

static void attention(struct pass *p)
{
    const struct shape *s = &p->r->s;
    int n = (int)p->n, hd = (int)s->head_dim, ldq = (int)(s->heads * s->head_dim),
        ldk = (int)(s->kv_heads * s->head_dim);
    for (uint32_t h = 0; h < s->heads; h++) {
        uint32_t kv_head = h / (s->heads / s->kv_heads);
        size_t kv = (size_t)kv_head * s->head_dim;
        blas_product(&p->r->blas, p->score, n, p->q + (size_t)h * s->head_dim, ldq, p->k + kv, ldk, n, n, hd, true);
        score_sinks(p, h, kv_head);
        softmax(p, 1 / sqrt(s->head_dim));
        blas_product(&p->r->blas, p->att + (size_t)h * s->head_dim, ldq, p->score, n, p->v + kv, ldk, n, hd, n, false);
    }
}

static void add(struct pass *p)
{
    for (size_t i = 0; i < (size_t)p->n * p->r->s.dim; i++) p->x[i] += p->h[i];
}

static int layer(struct pass *p, uint32_t l)
{
    const struct shape *s = &p->r->s;
    const struct gguf_tensor *t;
    int e = tensor(p->r, &t, "blk.%u.attn_norm.weight", l);
    if (!e) e = norm(p, t);
    if (!e) e = product_of(p, p->q, p->h, l, "attn_q");
    if (!e) e = product_of(p, p->k, p->h, l, "attn_k");
    if (!e) e = product_of(p, p->v, p->h, l, "attn_v");
    if (e) return e;
    memcpy(p->sink_k, p->k, (size_t)p->sinks * s->kv_heads * s->head_dim * sizeof(float));
    rope(p, p->q, s->heads);
    rope(p, p->k, s->kv_heads);
    attention(p);
    e = product_of(p, p->h, p->att, l, "attn_output");
    if (e) return e;
    add(p);
    e = tensor(p->r, &t, "blk.%u.ffn_norm.weight", l);
    if (!e) e = norm(p, t);
    if (!e) e = product_of(p, p->gate, p->h, l, "ffn_gate");
    if (!e) e = product_of(p, p->up, p->h, l, "ffn_up");
    if (e) return e;
    for (size_t i = 0; i < (size_t)p->n * s->ffn; i++)
        p->gate[i] = (float)(p->gate[i] / (1 + exp(-(double)p->gate[i])) * p->up[i]);
    e = product_of(p, p->h, p->gate, l, "ffn_down");
    if (!e) add(p);
    return e;
}

static int run(struct pass *p, const int32_t *tokens, float *logits)
{
    const struct shape *s = &p->r->s;
    const struct gguf_tensor *embd, *out, *t;
    int e = make_freqs(p);
    if (!e) e = tensor(p->r, &embd, "token_embd.weight");
    for (uint32_t i = 0; !e && i < p->n; i++)
        e = tokens[i] < 0 || (uint32_t)tokens[i] >= s->vocab
                ? error_say(-EINVAL, "token %d is outside the vocabulary", tokens[i])
                : reference_rows(embd, (uint64_t)tokens[i], 1, p->x + (size_t)i * s->dim);
    for (uint32_t l = 0; !e && l < s->n_layers; l++) e = layer(p, l);
    if (!e) e = tensor(p->r, &t, "output_norm.weight");
    if (!e) e = norm(p, t);
    if (e) return e;
    out = gguf_find_tensor(p->r->g, "output.weight");
    return product(p, logits, p->h, out ? out : embd);
}

int reference_rotate(struct reference *r, const int32_t *tokens, uint32_t n, uint32_t sinks, uint32_t window,
                     float *logits)
{
    const struct shape *s = &r->s;
    if (!window || sinks > INT32_MAX || window > INT32_MAX) return error_say(-EINVAL, "a window of %u", window);
    if (sinks > n) sinks = n, window = n; /* nothing slides */
    size_t q = (size_t)s->heads * s->head_dim, kv = (size_t)s->kv_heads * s->head_dim;
    size_t floats = n * (2ul * s->dim + 2 * q + 2 * kv + n + 2ul * s->ffn) + sinks * kv;
    _cleanup_(freep) float *mem = malloc(floats * sizeof(float));
    _cleanup_(freep) double *freqs = malloc((s->rope_dim / 2 + 1) * sizeof(double));
    if (!mem || !freqs)
        return error_say(-ENOMEM, "out of memory: %zu bytes for the reference pass", floats * sizeof(float));
    struct pass p = {.r = r, .n = n, .sinks = sinks, .window = window, .x = mem, .freqs = freqs};
    p.h = p.x + (size_t)n * s->dim;
    p.q = p.h + (size_t)n * s->dim;
    p.k = p.q + n * q;
    p.v = p.k + n * kv;
    p.att = p.v + n * kv;
    p.score = p.att + n * q;
    p.gate = p.score + (size_t)n * n;
    p.up = p.gate + (size_t)n * s->ffn;
    p.sink_k = p.up + (size_t)n * s->ffn;
    return run(&p, tokens, logits);
}

int reference_forward(struct reference *r, const int32_t *tokens, uint32_t n, float *logits)
{
    return reference_rotate(r, tokens, n, 0, n ? n : 1, logits); /* which nothing leaves */
}

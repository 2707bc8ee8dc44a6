/* SPDX-License-Identifier: MIT */
/* RoPE and attention of the reference pass, in double except for matrix products. */
#include "daemon/reference/reference-pass.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <math.h>
#include <string.h>

#define TAU 6.283185307179586

/* The formulas of the YaRN paper (arXiv 2309.00071, section 3.2) and of Llama 3's code, independent of rope.c. */
static double scaled(const struct rope *r, uint32_t rot, double freq)
{
    double turns = r->original * freq / TAU, keep = 0;
    if (r->kind == ROPE_LLAMA3) keep = (turns - r->low) / (r->high - r->low);
    if (r->kind == ROPE_YARN) { /* the ramp runs over the numbers of pairs, from the one that turns fast times on */
        double per_pair = 2 * log(r->base) / rot, pair = -log(freq) / per_pair;
        double first = floor(log(r->original / (r->fast * TAU)) / per_pair);
        double last = ceil(log(r->original / (r->slow * TAU)) / per_pair);
        first = first < 0 ? 0 : first;
        last = last > rot - 1 ? rot - 1 : last;
        keep = 1 - (pair - first) / (last - first > 0.001 ? last - first : 0.001);
    }
    keep = keep < 0 ? 0 : keep > 1 ? 1 : keep;
    return keep * freq + (1 - keep) * freq * r->scale;
}

static int factors(const struct pass *p, float *out)
{
    const struct hparams *s = &p->r->s;
    const char *name = s->rope.kind != ROPE_LONG      ? ROPE_TENSOR
                       : p->r->ctx > s->rope.original ? ROPE_LONG_TENSOR
                                                      : ROPE_SHORT_TENSOR;
    const struct gguf_tensor *t = gguf_find_tensor(p->r->g, name);
    for (uint32_t i = 0; i < s->rope_dim / 2; i++) out[i] = 1;
    return t && t->dims[0] == s->rope_dim / 2 ? reference_rows(t, 0, 1, out) : 0;
}

int reference_frequencies(struct pass *p)
{
    const struct hparams *s = &p->r->s;
    _cleanup_(freep) float *factor = malloc(s->head_dim * sizeof(float));
    if (!factor) return error_origin(-ENOMEM);
    int e = factors(p, factor);
    for (uint32_t j = 0; !e && j < s->rope_dim / 2; j++) {
        p->freqs[0][j] = scaled(&s->rope, s->rope_dim, pow(s->rope.base, -2.0 * j / s->rope_dim)) / factor[j];
    }
    const uint32_t other = hparams_heads_of(s, true).rope_dim;
    for (uint32_t j = 0; !e && j < other / 2; j++)
        p->freqs[1][j] = scaled(&s->window_rope, other, pow(s->window_rope.base, -2.0 * j / other)) /
                         (s->desc->window.unscaled ? 1 : factor[j]);
    return e;
}

/* One head at a place. */
void reference_rotate_head(const struct pass *p, float *x, struct item_place at)
{
    const struct hparams *s = &p->r->s;
    const bool slides = hparams_window(s, p->layer) > 0;
    const double size = (slides ? s->window_rope : s->rope).magnitude;
    const bool neox = s->desc->rope.neox;
    const uint32_t half = p->heads.rope_dim / 2, step = neox ? 1 : 2, apart = neox ? half : 1;
    if (!hparams_rotates(s, p->layer)) return;
    for (uint32_t j = 0; j < half; j++) {
        float *x0 = x + j * step, *x1 = x0 + apart;
        double a = at.of[hparams_axis(s, j)] * p->freqs[slides][j], c = size * cos(a), d = size * sin(a), old = *x0;
        *x0 = (float)(old * c - *x1 * d);
        *x1 = (float)(old * d + *x1 * c);
    }
}

static void rope(const struct pass *p, float *v, uint32_t heads)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const struct item_place at = p->r->places ? p->r->places[i] : (struct item_place){{i, i, i}};
        for (uint32_t h = 0; h < heads; h++)
            reference_rotate_head(p, v + ((size_t)i * heads + h) * p->heads.head_dim, at);
    }
}

static bool slides(const struct pass *p, uint32_t i)
{
    return p->window && i >= p->sinks + p->window;
}

/* Behind the last position that @i sees. */
static uint32_t end_of(const struct pass *p, uint32_t i)
{
    return p->ends ? p->ends[i] : i + 1;
}

static bool sees(const struct pass *p, uint32_t i, uint32_t j)
{
    uint32_t own = hparams_window(&p->r->s, p->layer);
    if (own && p->r->s.desc->window.symmetric) return (i > j ? i - j : j - i) <= own / 2;
    if (own && (p->r->s.desc->window.chunks ? j / own < i / own : j + own <= i)) return false;
    return j < end_of(p, i) && (!slides(p, i) || j < p->sinks || j > i - p->window);
}

/* Scores of the sinks for tokens that slide. Their keys are rotated to the positions directly before the window. */
static void score_sinks(struct pass *p, uint32_t head, uint32_t kv_head)
{
    const struct hparams *s = &p->r->s;
    float key[1024]; /* hparams.c: no head is wider */
    for (uint32_t i = 0; i < p->n; i++)
        for (uint32_t j = 0; slides(p, i) && j < p->sinks; j++) {
            const float *q = p->q + ((size_t)i * s->heads + head) * p->heads.head_dim;
            double sum = 0;
            memcpy(key, p->sink_k + ((size_t)j * p->heads.kv_heads + kv_head) * p->heads.head_dim,
                   p->heads.head_dim * sizeof(*key));
            const uint32_t at = i - p->window + 1 - p->sinks + j;
            reference_rotate_head(p, key, (struct item_place){{at, at, at}});
            for (uint32_t d = 0; d < p->heads.head_dim; d++) sum += (double)q[d] * key[d];
            p->score[(size_t)i * p->n + j] = (float)sum;
        }
}

void reference_softmax(struct pass *p, uint32_t head)
{
    const double scale = p->r->s.scale.attention, cap = p->r->s.cap.attention, slope = reference_slope(p, head);
    for (uint32_t i = 0; i < p->n; i++) {
        float *row = p->score + (size_t)i * p->n;
        const uint32_t end = end_of(p, i);
        double max = p->sink_scores ? p->sink_scores[head] : -INFINITY, sum = 0;
        for (uint32_t j = 0; j < end; j++)
            row[j] = (float)(cap > 0 ? cap * tanh(row[j] * scale / cap) : row[j] * scale);
        for (uint32_t j = 0; slope > 0 && j < end; j++) row[j] = (float)(row[j] - slope * fabs((double)i - (double)j));
        for (uint32_t j = 0; j < end; j++)
            if (sees(p, i, j)) max = fmax(max, row[j]);
        for (uint32_t j = 0; j < end; j++)
            if (sees(p, i, j)) sum += exp(row[j] - max);
        if (p->sink_scores) sum += exp(p->sink_scores[head] - max);
        for (uint32_t j = 0; j < p->n; j++) row[j] = sees(p, i, j) ? (float)(exp(row[j] - max) / sum) : 0;
    }
}

void reference_warm(const struct pass *p, float *q, size_t all)
{
    const struct hparams_temperature *t = &p->r->s.temperature;
    if (t->unrotated && hparams_rotates(&p->r->s, p->layer)) return;
    for (size_t i = 0; t->scale != 0 && i < p->n; i++) {
        const double by = 1 + t->scale * log(floor((double)(i + t->first) / t->floor) + 1);
        for (size_t d = 0; d < all; d++) q[i * all + d] = (float)(q[i * all + d] * by);
    }
}

/* Heads of a mean square of 1. */
static void unit_norm(const struct pass *p, float *x, size_t heads)
{
    const size_t dim = p->r->s.head_dim;
    for (size_t i = 0; i < p->n * heads; i++, x += dim) {
        double sum = 0;
        for (size_t d = 0; d < dim; d++) sum += (double)x[d] * x[d];
        for (size_t d = 0; d < dim; d++) x[d] = (float)(x[d] / sqrt(sum / (double)dim + p->r->s.rms_eps));
    }
}

int reference_attention(struct pass *p)
{
    const struct hparams *s = &p->r->s;
    memcpy(p->sink_k, p->k, (size_t)p->sinks * p->heads.kv_heads * p->heads.head_dim * sizeof(float));
    rope(p, p->q, s->heads);
    if (hparams_own_kv(s, p->layer)) rope(p, p->k, p->heads.kv_heads);
    int e = s->desc->block.qk_after_rope ? reference_norm_heads(p) : 0;
    if (e) return e;
    if (s->unit_norm && hparams_rotates(s, p->layer)) {
        unit_norm(p, p->q, s->heads);
        unit_norm(p, p->k, s->kv_heads);
    }
    reference_warm(p, p->q, (size_t)s->heads * p->heads.head_dim);
    int n = (int)p->n, hd = (int)p->heads.head_dim, ldq = (int)(s->heads * p->heads.head_dim),
        ldk = (int)(p->heads.kv_heads * p->heads.head_dim);
    for (uint32_t h = 0; h < s->heads; h++) {
        uint32_t kv_head = h / (s->heads / p->heads.kv_heads);
        size_t q = (size_t)h * p->heads.head_dim, kv = (size_t)kv_head * p->heads.head_dim;
        const struct blas_product qk = {p->score, p->q + q, p->k + kv, n, ldq, ldk, n, n, hd, true};
        const struct blas_product pv = {p->att + q, p->score, p->v + kv, ldq, n, ldk, n, hd, n, false};
        blas_multiply(&p->r->blas, &qk);
        score_sinks(p, h, kv_head);
        reference_softmax(p, h);
        blas_multiply(&p->r->blas, &pv);
    }
    return 0;
}

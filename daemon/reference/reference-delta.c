/* SPDX-License-Identifier: MIT */
/* The gated delta rule, from the first token on, in double: as in the papers of Gated DeltaNet (arXiv 2412.06464) and
 * the models' published code. */
#include "daemon/reference/reference-pass.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <math.h>
#include <string.h>

/* Of a layer: products of the normed input, [n] rows, and vectors. */
struct delta {
    float *qkv, *mixed, *z, *beta, *alpha; /* qkv before, mixed after the convolution */
    float *a, *dt, *norm;
};

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* x of length 1, times @scale. */
static void unit(double *out, const float *x, uint32_t n, double eps, double scale)
{
    double ss = 0;
    for (uint32_t i = 0; i < n; i++) ss += (double)x[i] * x[i];
    for (uint32_t i = 0; i < n; i++) out[i] = x[i] * scale / fmax(sqrt(ss), eps);
}

/* S = exp(g) S; S += k (beta (v - S^T k))^T; o = S^T q. */
static void step(double *s, const double *q, const double *k, const float *v, double g, double beta, float *o,
                 uint32_t dim)
{
    for (size_t i = 0; i < (size_t)dim * dim; i++) s[i] *= exp(g);
    for (uint32_t j = 0; j < dim; j++) {
        double known = 0, out = 0;
        for (uint32_t i = 0; i < dim; i++) known += s[(size_t)i * dim + j] * k[i];
        for (uint32_t i = 0; i < dim; i++) s[(size_t)i * dim + j] += k[i] * beta * (v[j] - known);
        for (uint32_t i = 0; i < dim; i++) out += s[(size_t)i * dim + j] * q[i];
        o[j] = (float)out;
    }
}

/* Value head @h of all tokens: d->mixed -> its columns of @out. */
static int head(const struct pass *p, const struct delta *d, uint32_t h, float *out)
{
    const struct hparams *y = &p->r->s;
    const struct hparams_recurrent *s = &y->recurrent;
    const uint32_t dim = s->head_dim, each = s->heads / s->key_heads;
    const bool apart = y->desc->recurrent.kind == RECURRENT_DELTA_TILED;
    const uint32_t key = apart ? h % s->key_heads : h / each;
    _cleanup_(freep) double *state = calloc((size_t)dim * dim + 2 * dim, sizeof(*state));
    if (!state) return error_origin(-ENOMEM);
    double *q = state + (size_t)dim * dim, *k = q + dim;
    for (size_t i = 0; i < p->n; i++) {
        const float *x = d->mixed + i * s->channels, *v = x + (2 * s->key_heads + h) * dim;
        const size_t own = i * s->heads + h, pair = i * 2 * s->heads + key * 2 * each + h % each;
        const double b = apart ? d->beta[own] : d->beta[pair], t = apart ? d->alpha[own] : d->beta[pair + each];
        float *o = out + own * dim;
        unit(q, x + key * dim, dim, y->rms_eps, 1 / sqrt(dim));
        unit(k, x + (s->key_heads + key) * dim, dim, y->rms_eps, 1);
        step(state, q, k, v, d->a[h] * log1p(exp(t + d->dt[h])), sigmoid(b), o, dim);
        double ss = 0;
        for (uint32_t j = 0; j < dim; j++) ss += (double)o[j] * o[j];
        for (uint32_t j = 0; j < dim; j++) {
            double z = d->z[own * dim + j];
            o[j] = (float)(o[j] / sqrt(ss / dim + y->rms_eps) * d->norm[j] * z * sigmoid(z));
        }
    }
    return 0;
}

/* The layer's vectors, and the products of p->h. */
static int inputs(struct pass *p, struct delta *d)
{
    const struct hparams_recurrent *s = &p->r->s.recurrent;
    const bool apart = p->r->s.desc->recurrent.kind == RECURRENT_DELTA_TILED;
    int e = reference_product(p, d->qkv, p->h, "attn_qkv", 0, s->channels, 0);
    if (!e) e = reference_product(p, d->z, p->h, "attn_gate", 0, s->out, 0);
    if (!e) e = reference_product(p, d->beta, p->h, apart ? "ssm_beta" : "ssm_ba", 0, s->in[2], 0);
    if (!e && apart) e = reference_product(p, d->alpha, p->h, "ssm_alpha", 0, s->heads, 0);
    if (!e) e = reference_vector(p, &d->a, "ssm_a", 0);
    if (!e) e = reference_vector(p, &d->dt, "ssm_dt.bias", 0);
    return e ? e : reference_vector(p, &d->norm, "ssm_norm.weight", 0);
}

int reference_delta(struct pass *p)
{
    const struct hparams_recurrent *s = &p->r->s.recurrent;
    const size_t n = p->n;
    _cleanup_(freep) float *mem = malloc(n * (2ul * s->channels + 2ul * s->out + 4ul * s->heads) * sizeof(*mem));
    if (!mem) return error_origin(-ENOMEM);
    struct delta d = {.qkv = mem};
    d.mixed = d.qkv + n * s->channels;
    d.z = d.mixed + n * s->channels;
    d.beta = d.z + n * s->out;
    d.alpha = d.beta + n * 2 * s->heads;
    float *out = d.alpha + n * 2 * s->heads;
    int e = inputs(p, &d);
    if (!e) e = reference_convolution(p, d.mixed, d.qkv, "ssm_conv1d");
    for (size_t i = 0; !e && i < n * s->channels; i++) d.mixed[i] = (float)(d.mixed[i] * sigmoid(d.mixed[i]));
    for (uint32_t h = 0; !e && h < s->heads; h++) e = head(p, &d, h, out);
    if (!e) e = reference_product(p, p->h, out, "ssm_out", 0, p->r->s.dim, 0);
    free(d.a), free(d.dt), free(d.norm);
    return e;
}

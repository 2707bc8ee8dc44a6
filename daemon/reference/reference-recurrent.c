/* SPDX-License-Identifier: MIT */
/* Recurrent layers, from the first token on: no state is kept. */
#include "daemon/reference/reference-pass.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

int reference_convolution(struct pass *p, float *out, const float *in, const char *which)
{
    const size_t taps = p->r->s.recurrent.taps, channels = p->r->s.recurrent.channels;
    char name[64];
    snprintf(name, sizeof(name), "%s.weight", which);
    _cleanup_(freep) float *w = NULL;
    int e = reference_vectors(p, &w, name);
    for (size_t i = 0; !e && i < p->n; i++)
        for (size_t c = 0; c < channels; c++) {
            double sum = 0;
            for (size_t j = 0; j < taps; j++)
                if (i + 1 + j >= taps) sum += (double)w[c * taps + j] * in[(i + 1 + j - taps) * channels + c];
            out[i * channels + c] = (float)sum;
        }
    return e;
}

/* h -> h: out_proj(c * conv(b * x)), where b, c and x are the parts of in_proj. */
static int short_convolution(struct pass *p)
{
    const struct hparams *s = &p->r->s;
    const size_t dim = s->dim, all = p->n * dim;
    _cleanup_(freep) float *b = malloc(all * sizeof(*b)), *c = malloc(all * sizeof(*c)), *x = malloc(all * sizeof(*x));
    if (!b || !c || !x) return error_origin(-ENOMEM);
    int e = reference_product(p, b, p->h, "shortconv.in_proj", 0, dim, 0);
    if (!e) e = reference_product(p, c, p->h, "shortconv.in_proj", dim, dim, 0);
    if (!e) e = reference_product(p, x, p->h, "shortconv.in_proj", 2 * dim, dim, 0);
    if (e) return e;
    for (size_t i = 0; i < all; i++) b[i] *= x[i];
    e = reference_convolution(p, x, b, "shortconv.conv");
    if (e) return e;
    for (size_t i = 0; i < all; i++) x[i] *= c[i];
    return reference_product(p, p->h, x, "shortconv.out_proj", 0, dim, 0);
}

/* Activations of a Mamba-2 layer, n tokens. */
struct mamba {
    float *z, *y; /* [n][inner] */
    float *xbc;   /* [n][channels] x, b and c of each group */
    float *dt;    /* [n][heads] */
    float *bias, *a, *d, *norm;
};

static void mamba_fini(struct mamba *m)
{
    free(m->z);
    free(m->bias);
    free(m->a);
    free(m->d);
    free(m->norm);
}

/* S = exp(dt a) S + dt x b^T; y = S c + d x, one head after the other, in double. */
static int mamba_scan(const struct pass *p, const struct mamba *m)
{
    const struct hparams_recurrent *s = &p->r->s.recurrent;
    _cleanup_(freep) double *state = malloc(s->state * sizeof(*state));
    if (!state) return error_origin(-ENOMEM);
    for (uint32_t v = 0; v < s->out; v++) {
        const uint32_t h = v / s->head_dim, g = h / (s->heads / s->groups);
        memset(state, 0, s->state * sizeof(*state));
        for (size_t i = 0; i < p->n; i++) {
            const float *row = m->xbc + i * s->channels, *b = row + s->out + g * s->state,
                        *c = b + s->groups * s->state;
            const double dt = log1p(exp(m->dt[i * s->heads + h] + m->bias[h])), decay = exp(dt * m->a[h]);
            double sum = (double)row[v] * m->d[h];
            for (uint32_t k = 0; k < s->state; k++) {
                state[k] = state[k] * decay + dt * row[v] * b[k];
                sum += state[k] * c[k];
            }
            m->y[i * s->out + v] = (float)sum;
        }
    }
    return 0;
}

/* y = y * silu(z), normed in each group if there is a norm. */
static void mamba_gate(const struct pass *p, const struct mamba *m)
{
    const struct hparams_recurrent *s = &p->r->s.recurrent;
    const uint32_t width = s->out / s->groups;
    for (size_t i = 0; i < (size_t)p->n * s->out; i++) m->y[i] *= m->z[i] / (1 + expf(-m->z[i]));
    for (size_t i = 0; m->norm && i < (size_t)p->n * s->groups; i++) {
        float *row = m->y + i * width;
        double ss = 0;
        for (uint32_t k = 0; k < width; k++) ss += (double)row[k] * row[k];
        for (uint32_t k = 0; k < width; k++)
            row[k] = (float)(row[k] / sqrt(ss / width + p->r->s.rms_eps) * m->norm[i % s->groups * width + k]);
    }
}

/* x, b and c after the convolution. */
static int mamba_convolve(struct pass *p, const struct mamba *m)
{
    const struct hparams_recurrent *s = &p->r->s.recurrent;
    const size_t all = (size_t)p->n * s->channels;
    _cleanup_(freep) float *bias = NULL, *raw = malloc(all * sizeof(*raw));
    int e = raw ? reference_vector(p, &bias, "ssm_conv1d.bias", 0) : error_origin(-ENOMEM);
    if (!e) memcpy(raw, m->xbc, all * sizeof(*raw));
    if (!e) e = reference_convolution(p, m->xbc, raw, "ssm_conv1d");
    if (e) return e;
    for (size_t i = 0; i < all; i++) {
        double v = (double)m->xbc[i] + (bias ? bias[i % s->channels] : 0);
        m->xbc[i] = (float)(v / (1 + exp(-v)));
    }
    return 0;
}

static int mamba2(struct pass *p)
{
    const struct hparams_recurrent *s = &p->r->s.recurrent;
    _cleanup_(mamba_fini) struct mamba m = {0};
    m.z = malloc((size_t)p->n * (2 * s->out + s->channels + s->heads) * sizeof(float));
    if (!m.z) return error_origin(-ENOMEM);
    m.y = m.z + (size_t)p->n * s->out;
    m.xbc = m.y + (size_t)p->n * s->out;
    m.dt = m.xbc + (size_t)p->n * s->channels;
    int e = reference_product(p, m.z, p->h, "ssm_in", 0, s->out, 0);
    if (!e) e = reference_product(p, m.xbc, p->h, "ssm_in", s->out, s->channels, 0);
    if (!e) e = reference_product(p, m.dt, p->h, "ssm_in", s->out + s->channels, s->heads, 0);
    if (!e) e = mamba_convolve(p, &m);
    if (!e) e = reference_vectors(p, &m.bias, "ssm_dt.bias");
    if (!e) e = reference_vectors(p, &m.a, "ssm_a");
    if (!e) e = reference_vectors(p, &m.d, "ssm_d");
    if (!e && p->r->s.desc->recurrent.norm != ARCH_MUST) {
        char name[64];
        snprintf(name, sizeof(name), "blk.%u.ssm_norm.weight", p->layer);
        if (gguf_find_tensor(p->r->g, name)) e = reference_vectors(p, &m.norm, "ssm_norm.weight");
    } else if (!e) {
        e = reference_vectors(p, &m.norm, "ssm_norm.weight");
    }
    if (!e) e = mamba_scan(p, &m);
    if (e) return e;
    mamba_gate(p, &m);
    return reference_product(p, p->h, m.y, "ssm_out", 0, p->r->s.dim, 0);
}

int reference_recurrent(struct pass *p)
{
    switch (p->r->s.desc->recurrent.kind) {
    case RECURRENT_CONV:
        return short_convolution(p);
    case RECURRENT_MAMBA2:
        return mamba2(p);
    case RECURRENT_DELTA:
    case RECURRENT_DELTA_TILED:
        return reference_delta(p);
    case RECURRENT_NONE:
        break;
    }
    return error_origin(-EINVAL);
}

/* SPDX-License-Identifier: MIT */
/* Operations of recurrent layers: convolution over the last positions, gates, the delta rule. */
#include "kernels/ref/ref.h"

void REF(conv)(float *out, const float *const *x, const float *w, size_t ld, const float *bias, size_t taps, size_t n,
               bool silu)
{
    for (size_t i = 0; i < n; i++) {
        float acc = 0;
        for (size_t j = 0; j < taps; j++) acc = fmaf(w[j * ld + i], x[j][i], acc);
        if (bias) acc += bias[i];
        out[i] = silu ? acc / (1 + ref_exp(-acc)) : acc;
    }
}

void REF(l2norm)(float *out, const float *x, size_t k, float eps, float scale)
{
    float lane[16] = {0};
    for (size_t i = 0; i < k; i++) lane[i % 16] = fmaf(x[i], x[i], lane[i % 16]);
    float length = sqrtf(ref_fold(lane, 16)), r = scale / (length > eps ? length : eps);
    for (size_t i = 0; i < k; i++) out[i] = x[i] * r;
}

void REF(softplus)(float *x, size_t n)
{
    static const float odd[] = {SOFTPLUS_13, SOFTPLUS_11, SOFTPLUS_9, SOFTPLUS_7, SOFTPLUS_5, SOFTPLUS_3};
    for (size_t i = 0; i < n; i++) {
        float e = ref_exp(-fabsf(x[i])), s = e / (2 + e), z = s * s, p = SOFTPLUS_15;
        for (size_t j = 0; j < sizeof(odd) / sizeof(*odd); j++) p = fmaf(p, z, odd[j]);
        float half = fmaf(s, p * z, s);
        x[i] = (x[i] > 0 ? x[i] : 0) + (half + half);
    }
}

void REF(sigmoid_mul)(float *x, const float *gate, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = x[i] / (1 + ref_exp(-gate[i]));
}

/* One token in one column of the state, whose rows are 16 floats apart. */
static float delta_column(float *s, const float *k, const float *q, size_t dk, float v, float decay, float beta)
{
    float u[2] = {0}, o = 0;
    for (size_t i = 0; i < dk; i++) u[i % 2] = fmaf(k[i], s[i * KERN_ROWS], u[i % 2]);
    float d = (v - (u[0] + u[1]) * decay) * beta;
    for (size_t i = 0; i < dk; i++) {
        s[i * KERN_ROWS] = fmaf(k[i], d, s[i * KERN_ROWS] * decay);
        o = fmaf(q[i], s[i * KERN_ROWS], o);
    }
    return o;
}

void REF(delta)(const struct kern_delta *a)
{
    for (size_t t = 0; t < a->n; t++) {
        const float *k = a->k + t * a->ld, *q = a->q + t * a->ld, *v = a->v + t * a->ld_v;
        for (size_t j = 0; j < a->dv; j++)
            a->o[t * a->ld_o + j] = delta_column(a->state + j / KERN_ROWS * KERN_ROWS * a->dk + j % KERN_ROWS, k, q,
                                                 a->dk, v[j], a->decay[t * a->ld_gate], a->beta[t * a->ld_gate]);
    }
}

void REF(ssm)(const struct kern_ssm *a)
{
    for (size_t t = 0; t < a->n; t++) {
        const float *x = a->x + t * a->ld, *b = a->b + t * a->ld, *c = a->c + t * a->ld, dt = a->dt[t * a->ld];
        const float decay = ref_exp(dt * a->a);
        for (size_t p = 0; p < a->dim; p++) {
            float *s = a->state + p / KERN_ROWS * KERN_ROWS * a->rows + p % KERN_ROWS, u = x[p] * dt, y[2] = {0};
            for (size_t i = 0; i < a->rows; i++) {
                s[i * KERN_ROWS] = fmaf(b[i], u, s[i * KERN_ROWS] * decay);
                y[i % 2] = fmaf(c[i], s[i * KERN_ROWS], y[i % 2]);
            }
            a->y[t * a->ld_y + p] = fmaf(x[p], a->d, y[0] + y[1]);
        }
    }
}

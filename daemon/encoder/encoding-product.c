/* SPDX-License-Identifier: MIT */
/* Products, norms and activations of a slice. */
#include "daemon/encoder/encoding-state.h"
#include <math.h>

#define LANES        16
#define PANELS_GRAIN 4 /* panels of a piece of work */
#define QUICK        1.702f

void encoding_run(struct compute_pool *pool, compute_fn fn, void *ctx, uint32_t n, uint32_t least)
{
    if (pool)
        compute_pool_run(pool, fn, ctx, n, least, 16 * least);
    else
        fn(ctx, 0, n, 0);
}

struct product {
    const struct encoding *x;
    const struct encoder_matrix *m;
    struct kern_acts in;
    float *out;
    size_t ld;
};

static void quantize(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct product *j = ctx;
    const size_t k = j->m->k, nb = k / KERN_BLOCK;
    for (size_t t = begin; t < end; t++) {
        const struct kern_act a = kern_act(j->in.n, t, nb);
        j->x->e->kern->quantize(j->x->scratch.q + a.at * KERN_BLOCK, j->x->scratch.d + a.at * 2,
                                j->x->scratch.s + a.at * 2, j->in.f + t * k, k, a.step);
    }
}

static void multiply(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct product *j = ctx;
    const struct kernels *kern = j->x->e->kern;
    const uint32_t row = begin * KERN_ROWS, left = j->m->rows - row, most = (end - begin) * KERN_ROWS;
    const uint32_t rows = left < most ? left : most;
    kern->matmul[j->m->type](j->out + row, j->ld, j->m->panels + begin * j->m->panel_bytes, &j->in, rows);
    for (size_t t = 0; j->m->bias && t < j->in.n; t++) kern->add(j->out + t * j->ld + row, j->m->bias + row, rows);
}

void encoding_multiply(struct encoding *x, struct compute_pool *pool, const struct encoder_matrix *m, const float *in,
                       uint32_t n, float *out, size_t ld)
{
    struct product j = {.x = x,
                        .m = m,
                        .in = {.f = in, .q = x->scratch.q, .d = x->scratch.d, .s = x->scratch.s, .n = n, .k = m->k},
                        .out = out,
                        .ld = ld};
    if (kern_type_quantized(m->type)) encoding_run(pool, quantize, &j, n, 1);
    encoding_run(pool, multiply, &j, (m->rows + KERN_ROWS - 1) / KERN_ROWS, PANELS_GRAIN);
}

static float fold(float lane[LANES])
{
    for (int h = LANES / 2; h; h /= 2)
        for (int i = 0; i < h; i++) lane[i] += lane[i + h];
    return lane[0];
}

static void layer_norm(float *out, const float *in, const float *w, uint32_t n, float eps)
{
    float lane[LANES] = {0}, square[LANES] = {0};
    for (uint32_t i = 0; i < n; i++) lane[i % LANES] += in[i];
    const float mean = fold(lane) / (float)n;
    for (uint32_t i = 0; i < n; i++) {
        float d = in[i] - mean;
        square[i % LANES] += d * d;
    }
    const float r = 1 / sqrtf(fold(square) / (float)n + eps);
    for (uint32_t i = 0; i < n; i++) out[i] = (in[i] - mean) * r * w[i];
}

void encoding_norm(const struct kernels *kern, float *out, const float *in, const struct encoder_norm *norm, bool rms,
                   float eps)
{
    if (rms)
        kern->rmsnorm(out, in, norm->w, norm->n, eps);
    else
        layer_norm(out, in, norm->w, norm->n, eps);
    if (norm->b) kern->add(out, norm->b, norm->n);
}

void encoding_activate(const struct kernels *kern, enum encoder_act act, float *values, const float *factors,
                       uint32_t n)
{
    if (act == ENCODER_GELU) {
        kern->gelu_mul(values, factors, n);
        return;
    }
    if (act == ENCODER_GELU_ERF) {
        encoding_gelu_erf(values, n);
        return;
    }
    if (act == ENCODER_GELU_QUICK) kern->scale(values, QUICK, n);
    kern->silu_mul(values, factors, n);
    if (act == ENCODER_GELU_QUICK) kern->scale(values, 1 / QUICK, n);
}

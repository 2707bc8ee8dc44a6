/* SPDX-License-Identifier: MIT */
/*
 * A feed-forward whose gate is sparse (Gemma 3n): of a token's values of the gate only those far above the others are
 * not 0. With their mean m, their deviation d (of n - 1) and the model's factor f, each value g becomes
 * max(g - (m + f * d), 0); then the activation and the product with up as usual.
 */
#include "daemon/backend/cpu/cpu.h"
#include "daemon/backend/cpu/lanes.h"
#include <math.h>

/* m + f * d of @g[n], rounded to f32. */
static float cut(const float *g, size_t n, float factor)
{
    double sum[LANES] = {0}, square[LANES] = {0};
    for (size_t i = 0; i < n; i++) sum[i % LANES] += (double)g[i];
    const double mean = lanes_fold(sum) / (double)n;
    for (size_t i = 0; i < n; i++) square[i % LANES] += ((double)g[i] - mean) * ((double)g[i] - mean);
    const double deviation = n > 1 ? sqrt(lanes_fold(square) / (double)(n - 1)) : 0;
    return (float)(mean + (double)factor * deviation);
}

static void gate_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    const struct scratch *s = &p->c->scratch;
    const size_t n = s->gated.k;
    for (size_t i = begin; i < end; i++) {
        float *gate = s->gated.f + i * n;
        const float from = cut(gate, n, p->c->base.hparams.altup.sparsity);
        for (size_t j = 0; j < n; j++) gate[j] = gate[j] > from ? gate[j] - from : 0;
        p->c->kern->gelu_mul(gate, s->up + i * n, n);
        cpu_quantize_row(p, &s->gated, i);
    }
}

void cpu_sparse_gated(struct pass *p, const struct matrix *gate, const struct matrix *up)
{
    struct scratch *s = &p->c->scratch;
    const struct product set[] = {{gate, s->gated.f}, {up, s->up}};
    s->gated.k = gate->rows;
    cpu_products(p, set, 2, &s->h, p->n);
    cpu_each(p, gate_tokens, p->n);
}

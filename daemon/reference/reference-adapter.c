/* SPDX-License-Identifier: MIT */
/* What a low-rank adapter adds to a product: scale * B (A x), in double. */
#include "daemon/reference/reference-pass.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdlib.h>

void reference_adapter(struct reference *r, const struct adapter *a, float scale, uint32_t from)
{
    r->adapter.of = a;
    r->adapter.scale = scale;
    r->adapter.from = from;
}

static const struct adapter_pair *pair_of(const struct reference *r, const struct gguf_tensor *t)
{
    const struct adapter *a = r->adapter.of;
    for (size_t i = 0; a && i < a->n_pairs; i++)
        if (a->pairs[i].of == t) return &a->pairs[i];
    return NULL;
}

static double scale_of(const struct reference *r, const struct adapter_pair *pair)
{
    const struct adapter *a = r->adapter.of;
    return a->alpha != 0 ? (double)r->adapter.scale * (double)a->alpha / pair->rank : (double)r->adapter.scale;
}

/* out[rows] += scale * b[rows][rank] low. */
static void add(float *out, const float *b, const double *low, uint64_t rows, uint32_t rank, double scale)
{
    for (uint64_t i = 0; i < rows; i++) {
        double sum = 0;
        for (uint32_t k = 0; k < rank; k++) sum += (double)b[i * rank + k] * low[k];
        out[i] = (float)((double)out[i] + scale * sum);
    }
}

int reference_adapt(const struct pass *p, float *out, const float *in, const struct gguf_tensor *t, uint64_t row,
                    uint64_t rows)
{
    const struct adapter_pair *pair = pair_of(p->r, t);
    if (!pair || pair->rows) return 0;
    const uint64_t k = t->dims[0];
    const uint32_t rank = pair->rank;
    _cleanup_(freep) float *a = malloc(rank * k * sizeof(*a)), *b = malloc(rows * rank * sizeof(*b));
    _cleanup_(freep) double *low = malloc(rank * sizeof(*low));
    if (!a || !b || !low) return error_origin(-ENOMEM);
    int e = reference_rows(pair->a, 0, rank, a);
    if (!e) e = reference_rows(pair->b, row, rows, b);
    for (size_t i = p->r->adapter.from; !e && i < p->n; i++) {
        for (uint32_t j = 0; j < rank; j++) {
            low[j] = 0;
            for (uint64_t c = 0; c < k; c++) low[j] += (double)a[j * k + c] * (double)in[i * k + c];
        }
        add(out + i * rows, b, low, rows, rank, scale_of(p->r, pair));
    }
    return e;
}

int reference_adapt_row(const struct pass *p, float *x, const struct gguf_tensor *table, uint32_t position,
                        uint64_t token)
{
    const struct adapter_pair *pair = pair_of(p->r, table);
    if (!pair || position < p->r->adapter.from) return 0;
    const uint64_t dim = table->dims[0];
    _cleanup_(freep) float *a = malloc(pair->rank * sizeof(*a)), *b = malloc(dim * pair->rank * sizeof(*b));
    _cleanup_(freep) double *low = malloc(pair->rank * sizeof(*low));
    if (!a || !b || !low) return error_origin(-ENOMEM);
    int e = reference_rows(pair->a, token, 1, a);
    if (!e) e = reference_rows(pair->b, 0, dim, b);
    for (uint32_t j = 0; !e && j < pair->rank; j++) low[j] = (double)a[j];
    if (!e) add(x, b, low, dim, pair->rank, scale_of(p->r, pair));
    return e;
}

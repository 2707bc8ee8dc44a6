/* SPDX-License-Identifier: MIT */
/* Recurrent layers, from the first token on: no state is kept. */
#include "daemon/reference/reference-pass.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"

/* out[i] = sum of w[c][j] * x[i - taps + 1 + j] in each channel c, of rows of @channels; x is zero before the first. */
static void convolve(float *out, const float *x, const float *w, uint32_t taps, size_t channels, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (size_t c = 0; c < channels; c++) {
            double sum = 0;
            for (uint32_t j = 0; j < taps; j++)
                if (i + 1 + j >= taps) sum += (double)w[c * taps + j] * x[(i + 1 + j - taps) * channels + c];
            out[i * channels + c] = (float)sum;
        }
}

/* h -> h: out_proj(c * conv(b * x)), where b, c and x are the parts of in_proj. */
static int short_convolution(struct pass *p)
{
    const struct hparams *s = &p->r->s;
    const size_t dim = s->dim, all = p->n * dim;
    _cleanup_(freep) float *b = malloc(all * sizeof(*b)), *c = malloc(all * sizeof(*c)), *x = malloc(all * sizeof(*x));
    _cleanup_(freep) float *w = NULL;
    if (!b || !c || !x) return error_origin(-ENOMEM);
    int e = reference_vectors(p, &w, "shortconv.conv.weight");
    if (!e) e = reference_product(p, b, p->h, "shortconv.in_proj", 0, dim, 0);
    if (!e) e = reference_product(p, c, p->h, "shortconv.in_proj", dim, dim, 0);
    if (!e) e = reference_product(p, x, p->h, "shortconv.in_proj", 2 * dim, dim, 0);
    if (e) return e;
    for (size_t i = 0; i < all; i++) b[i] *= x[i];
    convolve(x, b, w, s->recurrent.taps, dim, p->n);
    for (size_t i = 0; i < all; i++) x[i] *= c[i];
    return reference_product(p, p->h, x, "shortconv.out_proj", 0, dim, 0);
}

int reference_recurrent(struct pass *p)
{
    switch (p->r->s.desc->recurrent.kind) {
    case RECURRENT_CONV:
        return short_convolution(p);
    case RECURRENT_NONE:
        break;
    }
    return error_origin(-EINVAL);
}

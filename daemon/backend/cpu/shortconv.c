/* SPDX-License-Identifier: MIT */
/* LFM2's layer: the input's product is three vectors b, c and x; out = c * conv(b * x). */
#include "daemon/backend/cpu/recurrent.h"

static int want(struct weights_plan *p, struct layer_recurrent *y, uint32_t l)
{
    const struct hparams *s = p->s;
    int r = weights_want_matrix(p, &y->in[0], l, "shortconv.in_proj", s->dim, s->recurrent.in[0]);
    if (!r) r = weights_want_vector(p, &y->conv, l, "shortconv.conv.weight", s->recurrent.taps, s->dim);
    return r ? r : weights_want_matrix(p, &y->out, l, "shortconv.out_proj", s->recurrent.out, s->dim);
}

static void channels(const struct pass *p, const struct recurrence *r, uint32_t part)
{
    const struct scratch *s = &p->c->scratch;
    const struct kernels *k = p->c->kern;
    const size_t dim = p->c->base.hparams.dim, ld = 3 * dim;
    const uint32_t first = part * RECURRENT_CHANNELS;
    uint32_t n = dim - first < RECURRENT_CHANNELS ? (uint32_t)dim - first : RECURRENT_CHANNELS;
    float *b = s->recurrent.in[0] + r->row * ld + first, *c = b + dim, *x = c + dim;
    for (uint32_t t = 0; t < r->entry->n; t++) k->mul(x + t * ld, x + t * ld, b + t * ld, n);
    recurrent_conv(p, r, part, x - first, ld, false, &n);
    for (uint32_t t = 0; t < r->entry->n; t++)
        k->mul(s->recurrent.out.f + (r->row + t) * dim + first, c + t * ld, x + t * ld, n);
}

static void scan(struct pass *p)
{
    recurrent_run(p, recurrent_conv_parts(&p->c->base.hparams), channels);
}

const struct recurrent_ops recurrent_shortconv = {.want = want, .scan = scan};

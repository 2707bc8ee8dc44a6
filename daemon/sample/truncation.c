/* SPDX-License-Identifier: MIT */
/* Sampler: top-k, typical-p, top-p, min-p, temperature. */
#include "daemon/sample/candidates.h"
#include "daemon/sample/processors.h"
#include "kernels/kernels.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>

struct truncation {
    struct logits_processor base;
    struct sample_params params;
};

/* The difference -log p - H of a candidate is the mean logit minus its own: both terms contain the logarithm of the
 * sum. */
static void cut_typical(struct sample_scratch *s, const struct sample_params *p)
{
    if (p->typical_p >= 1.0f) return;
    double sum = 0, mean = 0, part = 0;
    for (size_t i = 0; i < s->n; i++) {
        float x = s->cands[i].logit - s->cands[0].logit;
        sum += (double)kern_exp(x);
        mean += (double)kern_exp(x) * (double)x;
    }
    mean /= sum;
    for (size_t i = 0; i < s->n; i++) {
        double x = (double)(s->cands[i].logit - s->cands[0].logit);
        s->order[i] = (struct candidate){(float)-fabs(mean - x), (int32_t)i};
    }
    candidates_sort(s->order, s->n);
    size_t stay = 0, n = 0;
    do {
        part += (double)kern_exp(s->cands[s->order[stay].id].logit - s->cands[0].logit);
        s->counts[s->order[stay++].id] = 1;
    } while (stay < s->n && part < (double)p->typical_p * sum);
    for (size_t i = 0; i < s->n; i++) {
        if (s->counts[i]) s->cands[n++] = s->cands[i];
        s->counts[i] = 0;
    }
    s->n = n;
}

static void cut_top_p(struct sample_scratch *s, const struct sample_params *p)
{
    if (p->top_p >= 1.0f) return;
    double sum = 0, part = 0;
    for (size_t i = 0; i < s->n; i++) sum += (double)kern_exp(s->cands[i].logit - s->cands[0].logit);
    for (size_t i = 0; i < s->n; i++) {
        part += (double)kern_exp(s->cands[i].logit - s->cands[0].logit);
        if (part >= (double)p->top_p * sum) {
            s->n = i + 1;
            return;
        }
    }
}

static void cut_min_p(struct sample_scratch *s, const struct sample_params *p)
{
    if (p->min_p <= 0.0f) return;
    size_t n = 1;
    while (n < s->n && kern_exp(s->cands[n].logit - s->cands[0].logit) >= p->min_p) n++;
    s->n = n;
}

static void scale_temperature(struct sample_scratch *s, const struct sample_params *p)
{
    float max = s->cands[0].logit;
    for (size_t i = 0; i < s->n; i++) s->cands[i].logit = (s->cands[i].logit - max) / p->temperature;
}

static int truncation_apply(struct logits_processor *base, struct logits_row *row, const struct logits_history *h)
{
    const struct sample_params *p = &((const struct truncation *)base)->params;
    struct sample_scratch *s = row->scratch;
    candidates_top(row, p->top_k);
    if (s->n == 0) return 0;
    cut_typical(s, p);
    cut_top_p(s, p);
    cut_min_p(s, p);
    scale_temperature(s, p);
    if (isfinite(s->cands[0].logit)) row->picked = candidates_draw(s->cands, s->n, row->u)->id;
    return 0;
}

static int truncation_clone(const struct logits_processor *p, struct logits_processor **out)
{
    return truncation_sampler_new(out, &((const struct truncation *)p)->params);
}

static void truncation_free(struct logits_processor *p)
{
    free(p);
}

static const struct logits_processor_ops truncation_ops = {.name = "truncation",
                                                           .samples = true,
                                                           .apply = truncation_apply,
                                                           .clone = truncation_clone,
                                                           .free = truncation_free};

int truncation_sampler_new(struct logits_processor **out, const struct sample_params *p)
{
    struct truncation *x = calloc(1, sizeof(*x));
    if (!x) return -ENOMEM;
    *x = (struct truncation){{.ops = &truncation_ops}, *p};
    *out = &x->base;
    return 0;
}

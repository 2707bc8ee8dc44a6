/* SPDX-License-Identifier: MIT */
/* Sampler: mirostat, version 2. */
#include "daemon/sample/candidates.h"
#include "daemon/sample/processors.h"
#include "kernels/kernels.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct mirostat {
    struct logits_processor base;
    float tau, eta, temperature;
    double *mus; /* [n] the greatest surprise that may pass, bits, after each accepted token */
    size_t n, cap;
    int32_t picked; /* by the last apply; -1: none */
    double next;    /* mu if the picked token is accepted */
};

static double current_mu(const struct mirostat *m)
{
    return m->n ? m->mus[m->n - 1] : 2 * (double)m->tau;
}

/* Only the ids that pass are sorted. */
static int mirostat_apply(struct logits_processor *p, struct logits_row *row, const struct logits_history *h)
{
    struct mirostat *m = (struct mirostat *)p;
    struct sample_scratch *s = row->scratch;
    int32_t best = candidates_largest(row);
    m->picked = -1;
    if (best < 0 || !isfinite(logits_get(row, (uint32_t)best))) return 0;
    float *x = logits_write(row), max = x[best];
    double sum = 0, mu = current_mu(m);
    for (uint32_t i = 0; i < row->vocab; i++) {
        x[i] = (x[i] - max) / m->temperature;
        if (x[i] > -INFINITY) sum += (double)kern_exp(x[i]);
    }
    double total = log(sum), least = total - mu * M_LN2; /* the least logit that passes */
    s->n = 0;
    for (uint32_t i = 0; i < row->vocab; i++)
        if (x[i] > -INFINITY && (double)x[i] >= least) s->cands[s->n++] = (struct candidate){x[i], (int32_t)i};
    if (s->n == 0) s->cands[s->n++] = (struct candidate){0, best};
    candidates_sort(s->cands, s->n);
    const struct candidate *c = candidates_draw(s->cands, s->n, row->u);
    double surprise = (total - (double)c->logit) / M_LN2;
    m->next = mu - (double)m->eta * (surprise - (double)m->tau);
    row->picked = m->picked = c->id;
    return 0;
}

static int mirostat_accept(struct logits_processor *p, int32_t token)
{
    struct mirostat *m = (struct mirostat *)p;
    if (m->n == m->cap) {
        size_t cap = m->cap ? m->cap * 2 : 64;
        double *mus = reallocarray(m->mus, cap, sizeof(*mus));
        if (!mus) return -ENOMEM;
        m->mus = mus;
        m->cap = cap;
    }
    double mu = token == m->picked ? m->next : current_mu(m);
    m->mus[m->n++] = mu;
    m->picked = -1;
    return 0;
}

static void mirostat_rollback(struct logits_processor *p, size_t n)
{
    struct mirostat *m = (struct mirostat *)p;
    m->n -= n;
    m->picked = -1;
}

static void mirostat_free(struct logits_processor *p)
{
    free(((struct mirostat *)p)->mus);
    free(p);
}

static int mirostat_clone(const struct logits_processor *p, struct logits_processor **out)
{
    const struct mirostat *m = (const struct mirostat *)p;
    struct mirostat *q = malloc(sizeof(*q));
    if (!q) return -ENOMEM;
    *q = *m;
    q->base.next = NULL;
    q->cap = m->n;
    q->mus = m->n ? calloc(m->n, sizeof(*q->mus)) : NULL;
    if (m->n && !q->mus) {
        free(q);
        return -ENOMEM;
    }
    if (m->n) memcpy(q->mus, m->mus, m->n * sizeof(*q->mus));
    *out = &q->base;
    return 0;
}

static const struct logits_processor_ops mirostat_ops = {.name = "mirostat",
                                                         .samples = true,
                                                         .apply = mirostat_apply,
                                                         .accept = mirostat_accept,
                                                         .rollback = mirostat_rollback,
                                                         .clone = mirostat_clone,
                                                         .free = mirostat_free};

int mirostat_sampler_new(struct logits_processor **out, const struct sample_params *p)
{
    struct mirostat *m = calloc(1, sizeof(*m));
    if (!m) return -ENOMEM;
    *m = (struct mirostat){{.ops = &mirostat_ops},
                           .tau = p->mirostat,
                           .eta = p->mirostat_eta,
                           .temperature = p->temperature,
                           .picked = -1};
    *out = &m->base;
    return 0;
}

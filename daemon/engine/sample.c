/* SPDX-License-Identifier: MIT */
#include "daemon/engine/sample.h"
#include "kernels/kernels.h"
#include "libcommon/error.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct candidate {
    float logit;
    int32_t id;
};

struct sampler {
    uint32_t vocab;
    float *row;              /* [vocab] the processors' own copy */
    struct candidate *cands; /* [vocab] */
    size_t n;                /* candidates alive; falling logits */
};

int sampler_new(struct sampler **out, uint32_t vocab)
{
    struct sampler *s = calloc(1, sizeof(*s));
    if (!s) return -ENOMEM;
    s->vocab = vocab;
    s->row = calloc(vocab, sizeof(*s->row));
    s->cands = calloc(vocab, sizeof(*s->cands));
    if (!s->row || !s->cands) {
        sampler_free(s);
        return -ENOMEM;
    }
    *out = s;
    return 0;
}

struct sampler *sampler_free(struct sampler *s)
{
    if (!s) return NULL;
    free(s->row);
    free(s->cands);
    free(s);
    return NULL;
}

/* --- processors that work on the whole row --- */

static void row_bias(struct sampler *s, const struct sample_params *p)
{
    for (size_t i = 0; i < p->n_ban; i++)
        if ((uint32_t)p->ban[i] < s->vocab) s->row[p->ban[i]] = -INFINITY;
}

static void row_penalty(struct sampler *s, const struct sample_params *p, const int32_t *history, size_t n)
{
    if (p->repeat == 1.0f) return;
    size_t from = n > p->repeat_n ? n - p->repeat_n : 0;
    for (size_t i = from; i < n; i++) {
        bool again = (uint32_t)history[i] >= s->vocab;
        for (size_t k = from; k < i && !again; k++) again = history[k] == history[i];
        if (again) continue;
        float *x = &s->row[history[i]];
        *x = *x > 0.0f ? *x / p->repeat : *x * p->repeat;
    }
}

/* --- candidates: a heap whose root goes last --- */

static bool before(const struct candidate *a, const struct candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

/* Restore the heap below @i: no node has a child that goes after it. */
static void sift(struct candidate *h, size_t n, size_t i)
{
    struct candidate x = h[i];
    for (;;) {
        size_t c = 2 * i + 1;
        if (c >= n) break;
        if (c + 1 < n && before(&h[c], &h[c + 1])) c++;
        if (before(&h[c], &x)) break;
        h[i] = h[c];
        i = c;
    }
    h[i] = x;
}

static void heap_sort(struct candidate *h, size_t n)
{
    for (size_t i = n / 2; i-- > 0;) sift(h, n, i);
    for (size_t end = n; end-- > 1;) {
        struct candidate x = h[0];
        h[0] = h[end];
        h[end] = x;
        sift(h, end, 0);
    }
}

/* top-k, and the sorted list that all later processors work on. */
static void pick_top_k(struct sampler *s, const struct sample_params *p)
{
    size_t k = p->top_k && p->top_k < s->vocab ? p->top_k : s->vocab, n = 0;
    struct candidate *h = s->cands;
    for (uint32_t i = 0; i < s->vocab; i++) {
        struct candidate x = {s->row[i], (int32_t)i};
        if (!(x.logit > -INFINITY)) continue; /* banned, or not a number */
        if (n < k) {
            h[n++] = x;
            if (n == k)
                for (size_t j = n / 2; j-- > 0;) sift(h, n, j);
        } else if (before(&x, &h[0])) {
            h[0] = x;
            sift(h, n, 0);
        }
    }
    heap_sort(h, n);
    s->n = n;
}

static void cut_top_p(struct sampler *s, const struct sample_params *p)
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

static void cut_min_p(struct sampler *s, const struct sample_params *p)
{
    if (p->min_p <= 0.0f) return;
    size_t n = 1;
    while (n < s->n && kern_exp(s->cands[n].logit - s->cands[0].logit) >= p->min_p) n++;
    s->n = n;
}

static void scale_temperature(struct sampler *s, const struct sample_params *p)
{
    float max = s->cands[0].logit;
    for (size_t i = 0; i < s->n; i++) s->cands[i].logit = (s->cands[i].logit - max) / p->temperature;
}

/* After the row's processors these run in this order, whatever the request says. */
static void (*const chain[])(struct sampler *, const struct sample_params *) = {
    pick_top_k,
    cut_top_p,
    cut_min_p,
    scale_temperature,
};

static int32_t pick_greedy(const struct sampler *s)
{
    int32_t best = -1;
    for (uint32_t i = 0; i < s->vocab; i++)
        if (s->row[i] > (best < 0 ? -INFINITY : s->row[best])) best = (int32_t)i;
    return best;
}

static int32_t draw(const struct sampler *s, double u)
{
    double sum = 0, part = 0;
    for (size_t i = 0; i < s->n; i++) sum += (double)kern_exp(s->cands[i].logit - s->cands[0].logit);
    for (size_t i = 0; i < s->n; i++) {
        part += (double)kern_exp(s->cands[i].logit - s->cands[0].logit);
        if (part > u * sum) return s->cands[i].id;
    }
    return s->cands[0].id; /* rounding took the last one's share */
}

int sampler_pick(struct sampler *s, const struct sample_params *p, const float *logits, const int32_t *history,
                 size_t n_history, double u, int32_t *id)
{
    int32_t picked = -1;
    memcpy(s->row, logits, s->vocab * sizeof(*s->row));
    row_bias(s, p);
    row_penalty(s, p, history, n_history);
    if (p->temperature == 0.0f) {
        picked = pick_greedy(s);
    } else {
        s->n = 0;
        chain[0](s, p);
        for (size_t i = 1; s->n && i < sizeof(chain) / sizeof(*chain); i++) chain[i](s, p);
        if (s->n && isfinite(s->cands[0].logit)) picked = draw(s, u);
    }
    if (picked < 0 || !isfinite(logits[picked])) return error_say(-EIO, "the model's output is not a number");
    *id = picked;
    return 0;
}

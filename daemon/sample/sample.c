/* SPDX-License-Identifier: MIT */
#include "daemon/sample/sample.h"
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
    const float *logits;     /* [vocab] what the row's processors left: the model's own or @row */
    float *row;              /* [vocab] a copy for those that write */
    uint32_t *counts;        /* [vocab] zero between uses */
    struct candidate *cands; /* [vocab] */
    struct candidate *order; /* [vocab] scratch: what they are sorted by, and their place */
    size_t n;                /* candidates alive; falling logits */
};

int sampler_new(struct sampler **out, uint32_t vocab)
{
    struct sampler *s = calloc(1, sizeof(*s));
    if (!s) return -ENOMEM;
    s->vocab = vocab;
    s->row = calloc(vocab, sizeof(*s->row));
    s->counts = calloc(vocab, sizeof(*s->counts));
    s->cands = calloc(vocab, sizeof(*s->cands));
    s->order = calloc(vocab, sizeof(*s->order));
    if (!s->row || !s->counts || !s->cands || !s->order) {
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
    free(s->counts);
    free(s->cands);
    free(s->order);
    free(s);
    return NULL;
}

/* --- processors that work on the whole row --- */

static void row_bias(struct sampler *s, const struct sample_params *p)
{
    for (size_t i = 0; i < p->n_bias; i++)
        if ((uint32_t)p->bias[i].id < s->vocab) s->row[p->bias[i].id] += p->bias[i].bias;
    for (size_t i = 0; i < p->n_ban; i++)
        if ((uint32_t)p->ban[i] < s->vocab) s->row[p->ban[i]] = -INFINITY;
}

static bool has_penalty(const struct sample_params *p)
{
    return p->repeat != 1.0f || p->frequency != 0.0f || p->presence != 0.0f;
}

static void row_penalty(struct sampler *s, const struct sample_params *p, const int32_t *history, size_t n)
{
    if (!has_penalty(p)) return;
    size_t from = n > p->repeat_n ? n - p->repeat_n : 0;
    for (size_t i = from; i < n; i++)
        if ((uint32_t)history[i] < s->vocab) s->counts[history[i]]++;
    for (size_t i = from; i < n; i++) {
        uint32_t count = (uint32_t)history[i] < s->vocab ? s->counts[history[i]] : 0;
        if (count == 0) continue; /* had its turn */
        s->counts[history[i]] = 0;
        float *x = &s->row[history[i]];
        if (p->repeat != 1.0f) *x = *x > 0.0f ? *x / p->repeat : *x * p->repeat;
        if (p->frequency != 0.0f) *x -= (float)count * p->frequency;
        if (p->presence != 0.0f) *x -= p->presence;
    }
}

/* --- looking for large ones: most of a row is passed by --- */

#define LOOK 256 /* logits at a time */

/* Of LOOK or, at the end, fewer logits, numbers only. Lanes: in this order a compiler may use vectors. */
static float largest(const float *x, size_t n)
{
    float lane[16];
    for (size_t l = 0; l < 16; l++) lane[l] = -INFINITY;
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (size_t l = 0; l < 16; l++) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (; i < n; i++) lane[0] = x[i] > lane[0] ? x[i] : lane[0];
    for (size_t l = 1; l < 16; l++) lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];
    return lane[0];
}

static size_t look(const struct sampler *s, size_t from)
{
    return s->vocab - from < LOOK ? s->vocab - from : LOOK;
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

/* The heap takes @x, or leaves it, when it may not grow beyond @k. */
static void offer(struct sampler *s, size_t k, struct candidate x)
{
    struct candidate *h = s->cands;
    if (!(x.logit > -INFINITY)) return; /* banned, or not a number */
    if (s->n < k) {
        h[s->n++] = x;
        if (s->n == k)
            for (size_t j = k / 2; j-- > 0;) sift(h, k, j);
    } else if (before(&x, &h[0])) {
        h[0] = x;
        sift(h, k, 0);
    }
}

/* top-k, and the sorted list that all later processors work on. */
static void pick_top_k(struct sampler *s, const struct sample_params *p)
{
    const size_t k = p->top_k && p->top_k < s->vocab ? p->top_k : s->vocab;
    const float *x = s->logits;
    s->n = 0;
    for (size_t i = 0, n; i < s->vocab; i += n) {
        n = look(s, i);
        if (s->n == k && largest(x + i, n) <= s->cands[0].logit) continue;
        for (size_t j = i; j < i + n; j++) offer(s, k, (struct candidate){x[j], (int32_t)j});
    }
    heap_sort(s->cands, s->n);
}

/* -log p - H of a candidate is the mean logit minus its own: the logarithm of the sum stands on both sides. */
static void cut_typical(struct sampler *s, const struct sample_params *p)
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
    heap_sort(s->order, s->n);
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
    pick_top_k, cut_typical, cut_top_p, cut_min_p, scale_temperature,
};

/* The first of the largest; -1: none is a number. */
static int32_t pick_greedy(const struct sampler *s)
{
    const float *x = s->logits;
    float best = -INFINITY;
    size_t at = 0;
    for (size_t i = 0, n; i < s->vocab; i += n) {
        n = look(s, i);
        float most = largest(x + i, n);
        if (most > best) best = most, at = i;
    }
    if (best == -INFINITY) return -1;
    while (x[at] != best) at++;
    return (int32_t)at;
}

static const struct candidate *draw(const struct sampler *s, double u)
{
    double sum = 0, part = 0;
    for (size_t i = 0; i < s->n; i++) sum += (double)kern_exp(s->cands[i].logit - s->cands[0].logit);
    for (size_t i = 0; i < s->n; i++) {
        part += (double)kern_exp(s->cands[i].logit - s->cands[0].logit);
        if (part > u * sum) return &s->cands[i];
    }
    return &s->cands[0]; /* rounding took the last one's share */
}

static int32_t pick_chain(struct sampler *s, const struct sample_params *p, double u)
{
    chain[0](s, p);
    for (size_t i = 1; s->n && i < sizeof(chain) / sizeof(*chain); i++) chain[i](s, p);
    return s->n && isfinite(s->cands[0].logit) ? draw(s, u)->id : -1;
}

/* Only what is let through is sorted. */
static int32_t pick_mirostat(struct sampler *s, const struct sample_params *p, struct sample_state *state, double u)
{
    int32_t best = pick_greedy(s);
    if (best < 0 || !isfinite(s->row[best])) return -1;
    float max = s->row[best];
    double sum = 0, mu = state->begun ? state->mu : 2 * (double)p->mirostat;
    for (uint32_t i = 0; i < s->vocab; i++) {
        s->row[i] = (s->row[i] - max) / p->temperature;
        if (s->row[i] > -INFINITY) sum += (double)kern_exp(s->row[i]);
    }
    double total = log(sum), least = total - mu * M_LN2; /* of a logit that is let through */
    s->n = 0;
    for (uint32_t i = 0; i < s->vocab; i++)
        if (s->row[i] > -INFINITY && (double)s->row[i] >= least)
            s->cands[s->n++] = (struct candidate){s->row[i], (int32_t)i};
    if (s->n == 0) s->cands[s->n++] = (struct candidate){0, best};
    heap_sort(s->cands, s->n);
    const struct candidate *c = draw(s, u);
    double surprise = (total - (double)c->logit) / M_LN2;
    *state = (struct sample_state){true, mu - (double)p->mirostat_eta * (surprise - (double)p->mirostat)};
    return c->id;
}

int sampler_pick(struct sampler *s, const struct sample_params *p, struct sample_state *state, const float *logits,
                 const int32_t *history, size_t n_history, double u, int32_t *id)
{
    const bool mirostat = p->temperature > 0.0f && p->mirostat > 0.0f;
    int32_t picked;
    s->logits = logits;
    if (p->n_bias || p->n_ban || has_penalty(p) || mirostat)
        s->logits = memcpy(s->row, logits, s->vocab * sizeof(*s->row));
    row_bias(s, p);
    row_penalty(s, p, history, n_history);
    if (p->temperature == 0.0f)
        picked = pick_greedy(s);
    else if (mirostat)
        picked = pick_mirostat(s, p, state, u);
    else
        picked = pick_chain(s, p, u);
    if (picked < 0 || !isfinite(logits[picked])) return error_say(-EIO, "the model's output is not a number");
    *id = picked;
    return 0;
}

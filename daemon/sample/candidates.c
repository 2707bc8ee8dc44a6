/* SPDX-License-Identifier: MIT */
#include "daemon/sample/candidates.h"
#include "kernels/kernels.h"
#include <math.h>

/* --- blocks of logits: most blocks of a row hold no candidate and are passed over --- */

#define BLOCK 256 /* logits */

/* The largest of @n <= BLOCK logits; NaN is passed over. A compiler may use vectors for the lanes. */
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

static size_t block(const struct logits_row *row, size_t from)
{
    return row->vocab - from < BLOCK ? row->vocab - from : BLOCK;
}

int32_t candidates_largest(const struct logits_row *row)
{
    const float *x = row->logits;
    float best = -INFINITY;
    size_t at = 0;
    for (size_t i = 0, n; i < row->vocab; i += n) {
        n = block(row, i);
        float most = largest(x + i, n);
        if (most > best) best = most, at = i;
    }
    if (best == -INFINITY) return -1;
    while (x[at] != best) at++;
    return (int32_t)at;
}

/* --- a heap whose root is sorted last --- */

static bool before(const struct candidate *a, const struct candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

/* Restore the heap below @i: no child is sorted after its parent. */
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

void candidates_sort(struct candidate *h, size_t n)
{
    for (size_t i = n / 2; i-- > 0;) sift(h, n, i);
    for (size_t end = n; end-- > 1;) {
        struct candidate x = h[0];
        h[0] = h[end];
        h[end] = x;
        sift(h, end, 0);
    }
}

/* Add @x to the heap of at most @k candidates, where it may replace the last one. */
static void offer(struct sample_scratch *s, size_t k, struct candidate x)
{
    struct candidate *h = s->cands;
    if (!(x.logit > -INFINITY)) return; /* banned, or NaN */
    if (s->n < k) {
        h[s->n++] = x;
        if (s->n == k)
            for (size_t j = k / 2; j-- > 0;) sift(h, k, j);
    } else if (before(&x, &h[0])) {
        h[0] = x;
        sift(h, k, 0);
    }
}

void candidates_top(const struct logits_row *row, uint32_t k)
{
    struct sample_scratch *s = row->scratch;
    const float *x = row->logits;
    if (k == 0 || k > row->vocab) k = row->vocab;
    s->n = 0;
    for (size_t i = 0, n; i < row->vocab; i += n) {
        n = block(row, i);
        if (s->n == k && largest(x + i, n) <= s->cands[0].logit) continue;
        for (size_t j = i; j < i + n; j++) offer(s, k, (struct candidate){x[j], (int32_t)j});
    }
    candidates_sort(s->cands, s->n);
}

const struct candidate *candidates_draw(const struct candidate *h, size_t n, double u)
{
    double sum = 0, part = 0;
    for (size_t i = 0; i < n; i++) sum += (double)kern_exp(h[i].logit - h[0].logit);
    for (size_t i = 0; i < n; i++) {
        part += (double)kern_exp(h[i].logit - h[0].logit);
        if (part > u * sum) return &h[i];
    }
    return &h[0]; /* rounding lost the share of the last one */
}

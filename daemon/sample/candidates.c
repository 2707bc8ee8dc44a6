/* SPDX-License-Identifier: MIT */
#include "daemon/sample/candidates.h"
#include "kernels/kernels.h"
#include <math.h>

/* --- blocks of logits: most blocks of a row hold no candidate and are passed over --- */

#define BLOCK 256 /* logits */
#define WORDS (BLOCK / 64)
#define FEW   32 /* tokens of a block: looked at one by one */

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

/* How many tokens of the block at @from are allowed. Unless all are, @bits [WORDS] has a bit for each of them. */
static size_t allowed(const struct logits_row *row, size_t from, uint64_t *bits)
{
    size_t some = 0;
    if (!row->allowed) return block(row, from);
    for (size_t w = 0; w < WORDS; w++) {
        size_t at = from + w * 64, left = at < row->vocab ? row->vocab - at : 0;
        bits[w] = left && at / 64 < row->allowed_words ? row->allowed[at / 64] : 0;
        if (left < 64) bits[w] &= (UINT64_C(1) << left) - 1;
        some += (size_t)__builtin_popcountll(bits[w]);
    }
    return some;
}

/* Takes the lowest bit out of @bits [WORDS], which has some, and tells its number. */
static size_t take_bit(uint64_t *bits)
{
    size_t w = 0;
    while (!bits[w]) w++;
    size_t bit = (size_t)__builtin_ctzll(bits[w]);
    bits[w] &= bits[w] - 1;
    return w * 64 + bit;
}

int32_t candidates_largest(const struct logits_row *row)
{
    const float *x = row->logits;
    float best = -INFINITY;
    size_t at = 0;
    uint64_t bits[WORDS];
    for (size_t i = 0; i < row->vocab; i += BLOCK) {
        size_t some = allowed(row, i, bits), n = block(row, i);
        float most = some == n || some > FEW ? largest(x + i, n) : INFINITY;
        if (some == 0 || most <= best) continue;
        if (some == n) {
            best = most, at = i;
            continue;
        }
        for (; some; some--) {
            size_t j = i + take_bit(bits);
            if (x[j] > best) best = x[j], at = j;
        }
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
    uint64_t bits[WORDS];
    for (size_t i = 0; i < row->vocab; i += BLOCK) {
        size_t some = allowed(row, i, bits), n = block(row, i);
        if (some > FEW && s->n == k && largest(x + i, n) <= s->cands[0].logit) continue;
        if (some == n) {
            for (size_t j = i; j < i + n; j++) offer(s, k, (struct candidate){x[j], (int32_t)j});
            continue;
        }
        for (; some; some--) {
            size_t j = i + take_bit(bits);
            offer(s, k, (struct candidate){x[j], (int32_t)j});
        }
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

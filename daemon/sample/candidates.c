/* SPDX-License-Identifier: MIT */
#include "daemon/sample/candidates.h"
#include "kernels/kernels.h"
#include <math.h>
#include <string.h>

/* --- blocks of logits: most blocks of a row hold no candidate and are passed over --- */

/* The largest of @n <= LOGITS_BLOCK logits; NaN is passed over. A compiler may use vectors for the lanes. */
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

static size_t in_block(uint32_t vocab, size_t b)
{
    const size_t left = vocab - b * LOGITS_BLOCK;
    return left < LOGITS_BLOCK ? left : LOGITS_BLOCK;
}

void logits_peaks(float *peaks, const float *logits, uint32_t vocab, size_t begin, size_t end)
{
    for (size_t b = begin; b < end; b++) peaks[b] = largest(logits + b * LOGITS_BLOCK, in_block(vocab, b));
}

/* The peaks of the row as the processors so far left it, in the scratch. */
static const float *peaks_of(const struct logits_row *row)
{
    struct sample_scratch *s = row->scratch;
    const size_t n = logits_blocks(row->vocab);
    if (row->peaks)
        memcpy(s->peaks, row->peaks, n * sizeof(*s->peaks));
    else
        logits_peaks(s->peaks, row->logits, row->vocab, 0, n);
    for (size_t w = 0; w * 64 < n; w++)
        for (uint64_t bits = s->copied[w]; bits; bits &= bits - 1) {
            const size_t b = w * 64 + (size_t)__builtin_ctzll(bits);
            s->peaks[b] = largest(s->row + b * LOGITS_BLOCK, in_block(row->vocab, b));
        }
    return s->peaks;
}

/* A bit for each token of block @b that is allowed. */
static uint64_t allowed(const struct logits_row *row, size_t b)
{
    const size_t n = in_block(row->vocab, b);
    const uint64_t all = n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
    if (!row->allowed) return all;
    return b < row->allowed_words ? row->allowed[b] & all : 0;
}

_Static_assert(LOGITS_BLOCK == 64, "a block has a bit of a word for each token");

int32_t candidates_largest(const struct logits_row *row)
{
    const float *peaks = peaks_of(row);
    float best = -INFINITY;
    size_t at = 0;
    for (size_t b = 0; b < logits_blocks(row->vocab); b++) {
        if (!(peaks[b] > best)) continue;
        const float *x = logits_block(row, b);
        for (uint64_t bits = allowed(row, b); bits; bits &= bits - 1) {
            const size_t i = (size_t)__builtin_ctzll(bits);
            if (x[i] > best) best = x[i], at = b * LOGITS_BLOCK + i;
        }
    }
    return best == -INFINITY ? -1 : (int32_t)at;
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

/* Offer the tokens of block @b whose logits are at least @least. */
static void offer_block(const struct logits_row *row, size_t k, size_t b, float least)
{
    struct sample_scratch *s = row->scratch;
    const float *x = logits_block(row, b);
    const size_t n = in_block(row->vocab, b);
    const uint64_t bits = allowed(row, b);
    for (size_t i = 0; i < n; i++) {
        if (!(x[i] >= least) || !(bits >> i & 1)) continue;
        offer(s, k, (struct candidate){x[i], (int32_t)(b * LOGITS_BLOCK + i)});
        if (s->n == k) least = s->cands[0].logit;
    }
}

/* Another thread has computed it. */
static void prefetch_block(const struct logits_row *row, size_t b)
{
    const float *x = logits_block(row, b);
    for (size_t i = 0; i < in_block(row->vocab, b); i += 16) __builtin_prefetch(x + i);
}

/* Move those of @x [n] that are larger than @pivot to the front, without a branch. Returns their number. */
static size_t move_larger(float *x, size_t n, float pivot)
{
    size_t larger = 0;
    for (size_t i = 0; i < n; i++) {
        const float y = x[i];
        x[i] = x[larger];
        x[larger] = y;
        larger += y > pivot;
    }
    return larger;
}

static float middle(float a, float b, float c)
{
    return fmaxf(fminf(a, b), fminf(fmaxf(a, b), c));
}

/* The @k-th largest of @x [n], whose order is lost; -INFINITY: there are fewer. No value is NaN. */
static float kth_largest(float *x, size_t n, size_t k)
{
    if (k > n) return -INFINITY;
    for (;;) {
        const float pivot = middle(x[0], x[n / 2], x[n - 1]);
        const size_t larger = move_larger(x, n, pivot);
        if (k <= larger) {
            n = larger;
            continue;
        }
        if (pivot == -INFINITY) return pivot; /* the others are, too */
        const size_t equal = move_larger(x + larger, n - larger, nextafterf(pivot, -INFINITY));
        if (k <= larger + equal) return pivot;
        x += larger + equal;
        n -= larger + equal;
        k -= larger + equal;
    }
}

static void offer_blocks(const struct logits_row *row, size_t k, float least)
{
    const float *peaks = row->scratch->peaks;
    const size_t n = logits_blocks(row->vocab);
    row->scratch->n = 0;
    for (size_t b = 0; b < n; b++)
        if (peaks[b] >= least) prefetch_block(row, b);
    for (size_t b = 0; b < n; b++)
        if (peaks[b] >= least) offer_block(row, k, b, least);
}

/* As many blocks have a peak of at least that of the k-th one, so that many tokens have such a logit: no other is a
 * candidate. Unless a token with a peak is not allowed, and there are fewer. */
void candidates_top(const struct logits_row *row, uint32_t k)
{
    struct sample_scratch *s = row->scratch;
    const size_t n = logits_blocks(row->vocab);
    if (k == 0 || k > row->vocab) k = row->vocab;
    float *copy = (float *)s->order;
    memcpy(copy, peaks_of(row), n * sizeof(*copy));
    offer_blocks(row, k, kth_largest(copy, n, k));
    if (s->n < k) offer_blocks(row, k, -INFINITY);
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

/* SPDX-License-Identifier: MIT */
#include "daemon/request/kept-tokens.h"
#include "libcommon/cleanup.h"
#include <string.h>

static size_t agree(const struct buf *a, const struct buf *b)
{
    size_t n = a->len < b->len ? a->len : b->len, i = 0;
    while (i < n && a->data[i] == b->data[i]) i++;
    return i;
}

static bool inside_character(const struct buf *s, size_t at)
{
    return at < s->len && ((unsigned char)s->data[at] & 0xC0) == 0x80;
}

/* The number of the session's ids that end at or before byte @at. */
static size_t ids_before(const struct session_content *x, size_t at)
{
    size_t lo = 0, hi = x->n_ids;
    while (lo < hi) { /* ends never fall */
        size_t mid = lo + (hi - lo) / 2;
        if (x->ends[mid] <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Bytes [from, to) were markup and are data now: where the first control token or run begins that the session has
 * there, or @to. */
static size_t lost_control(const struct session_content *x, const struct tokenizer *k, size_t from, size_t to)
{
    for (size_t i = ids_before(x, from); i < x->n_ids; i++) {
        size_t begin = i ? x->ends[i - 1] : 0;
        if (begin >= to) break;
        if (x->ids[i] == ITEM_EMBD || tokenizer_is_control(k, x->ids[i])) return begin;
    }
    return to;
}

/* They were data and are markup now: where the first control token begins that the template makes of them, or @to. < 0:
 * -errno. */
static int new_control(const struct prompt *p, const struct tokenizer *k, size_t from, size_t to, size_t *at)
{
    _cleanup_(text_fini) struct text t = {0};
    _cleanup_(tokens_fini) struct tokens ids = {0};
    size_t begin = from, end = to;
    while (begin > 0 && p->markup.data[begin - 1]) begin--;
    while (end < p->markup.len && p->markup.data[end]) end++;
    int r = text_append(&t, p->text.data + begin, end - begin, true);
    if (r == 0) r = tokenizer_encode(k, &t, 0, false, &ids);
    if (r < 0) return r;
    *at = to;
    for (size_t i = 0; i < ids.n; i++) {
        size_t a = begin + (i ? ids.ends[i - 1] : 0), b = begin + ids.ends[i];
        if (!tokenizer_is_control(k, ids.ids[i]) || a >= to || b <= from) continue;
        *at = a;
        break;
    }
    return 0;
}

/* Where the text of run @i of the session begins; SIZE_MAX: it has no such run. */
static size_t run_begin(const struct session_content *x, size_t i)
{
    if (i >= x->n_runs) return SIZE_MAX;
    return x->runs[i].at ? x->ends[x->runs[i].at - 1] : 0;
}

static bool same_run(const struct item_run *a, const struct item_run *b)
{
    return a->n == b->n && a->kind == b->kind && a->columns == b->columns &&
           memcmp(a->digest, b->digest, sizeof(a->digest)) == 0;
}

/* Where the first run begins that only one of prompt and session has there. SIZE_MAX: they have the same. */
static size_t first_other_run(const struct prompt_pieces *pieces, const struct session_content *x)
{
    size_t n = 0, begin = 0;
    for (size_t i = 0; i < pieces->n; begin = pieces->list[i++].end) {
        const struct prompt_piece *p = &pieces->list[i];
        size_t other = run_begin(x, n);
        if (!p->run.n) continue;
        if (other != begin || !same_run(&p->run, &x->runs[n])) return begin < other ? begin : other;
        n++;
    }
    return run_begin(x, n);
}

int kept_tokens(const struct prompt *p, const struct prompt_pieces *pieces, const struct tokenizer *k,
                const struct session_content *x, size_t *keep)
{
    size_t end = agree(&p->text, &x->text), other = first_other_run(pieces, x);
    if (other < end) end = other;
    for (size_t i = 0, j; i < end; i = j) {
        j = i + 1;
        char was = x->markup.data[i], is = p->markup.data[i];
        if (was == is) continue;
        while (j < end && x->markup.data[j] == was && p->markup.data[j] == is) j++;
        size_t same_to = j;
        int r = 0;
        if (was)
            same_to = lost_control(x, k, i, j);
        else
            r = new_control(p, k, i, j, &same_to);
        if (r < 0) return r;
        if (same_to < j) end = same_to;
    }
    size_t n = ids_before(x, end);
    while (n > 0 && inside_character(&p->text, x->ends[n - 1])) n--;
    *keep = n;
    return 0;
}

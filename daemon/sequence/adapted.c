/* SPDX-License-Identifier: MIT */
#include "daemon/sequence/adapted.h"
#include "daemon/sequence/sequence.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

uint32_t seq_adapted_from(const struct seq *s)
{
    const struct seq_context *c = &s->context;
    const uint32_t from = c->adapter.from;
    if (!c->adapter.number) return UINT32_MAX;
    if (!c->view || from < c->view_keep) return from;
    return from < c->view_keep + c->shifted ? c->view_keep : (uint32_t)(from - c->shifted);
}

/* The run that item @at of @t is, or begins, with the adapter @a. */
static struct item_run marked(const struct seq_adapter *a, const struct items *t, uint32_t at)
{
    const struct item_run *old = items_run_at(t, at);
    struct item_run run = old ? *old : (struct item_run){.at = at, .n = 1, .kind = ITEM_ADAPTER};
    uint8_t bytes[16 + 16 + 4];
    XXH128_canonical_t digest;
    assert(!old || old->at == at); /* no context cuts runs, and an invocation is of tokens */
    memcpy(bytes, a->digest, 16);
    memcpy(bytes + 16, run.digest, 16); /* zero for a token */
    memcpy(bytes + 32, &t->ids[at], 4);
    XXH128_canonicalFromHash(&digest, XXH3_128bits(bytes, sizeof(bytes)));
    memcpy(run.digest, digest.digest, 16);
    return run;
}

/* The runs of @t with the marked one. 0 or -ENOMEM. */
static int mark_runs(struct seq_adapter *a, const struct items *t, uint32_t at)
{
    struct item_run *runs = calloc(t->n_runs + 1, sizeof(*runs));
    if (!runs) return -ENOMEM;
    uint32_t n = 0, k = 0;
    while (k < t->n_runs && t->runs[k].at < at) runs[n++] = t->runs[k++];
    runs[n++] = marked(a, t, at);
    if (k < t->n_runs && t->runs[k].at == at) k++;
    while (k < t->n_runs) runs[n++] = t->runs[k++];
    free(a->runs);
    a->runs = runs;
    a->n_runs = n;
    return 0;
}

int seq_adapted_follow(struct seq *s)
{
    struct seq_adapter *a = &s->context.adapter;
    const struct items t = seq_items(s);
    const uint32_t at = seq_adapted_from(s);
    int r = 0;
    if (!a->number) return 0;
    assert(at < t.n);
    if (t.n > a->cap) {
        const uint32_t cap = t.n + t.n / 2 + 64;
        int32_t *ids = reallocarray(a->ids, cap, sizeof(*ids));
        if (!ids) return -ENOMEM;
        a->ids = ids;
        a->cap = cap;
    }
    if (!a->runs || a->shifted != s->context.shifted || t.n < a->n) {
        r = mark_runs(a, &t, at);
        if (r < 0) return r;
        a->shifted = s->context.shifted;
        a->n = 0;
    }
    memcpy(a->ids + a->n, t.ids + a->n, (t.n - a->n) * sizeof(*a->ids));
    if (at >= a->n) a->ids[at] = ITEM_EMBD;
    a->n = t.n;
    return 0;
}

void seq_adapted_fini(struct seq_adapter *a)
{
    free(a->ids);
    free(a->runs);
    *a = (struct seq_adapter){0};
}

struct items seq_cache_items(const struct seq *s)
{
    const struct seq_adapter *a = &s->context.adapter;
    const struct items t = seq_items(s);
    if (!a->number) return t;
    assert(a->n == t.n && a->shifted == s->context.shifted);
    return (struct items){.ids = a->ids, .n = a->n, .runs = a->runs, .n_runs = a->n_runs};
}

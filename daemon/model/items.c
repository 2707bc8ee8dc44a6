/* SPDX-License-Identifier: MIT */
#include "daemon/model/items.h"
#include <stddef.h>
#include <string.h>

/* The first run of @t that ends after position @pos; t->n_runs: none. */
static uint32_t run_after(const struct items *t, uint64_t pos)
{
    uint32_t lo = 0, hi = t->n_runs;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if ((uint64_t)t->runs[mid].at + t->runs[mid].n <= pos)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

void items_skip_runs(struct items *t)
{
    uint32_t k = run_after(t, t->base);
    t->runs += k;
    t->n_runs -= k;
}

const struct item_run *items_run_at(const struct items *t, uint32_t i)
{
    if (t->ids[i] != ITEM_EMBD) return NULL;
    uint32_t k = run_after(t, (uint64_t)t->base + i);
    return k < t->n_runs && t->runs[k].at <= t->base + i ? &t->runs[k] : NULL;
}

/* The place of item @i in the whole run, of which @r is a part. */
static uint32_t place(const struct items *t, const struct item_run *r, uint32_t i)
{
    return r->offset + (t->base + i - r->at);
}

/* The item behind the last one of @r, at most @n. */
static uint32_t end_of(const struct items *t, const struct item_run *r, uint32_t n)
{
    uint64_t end = (uint64_t)r->at + r->n - t->base;
    return end < n ? (uint32_t)end : n;
}

/* Order of item @i of both, which belongs to runs in both. */
static int compare_runs(const struct items *a, const struct items *b, uint32_t i)
{
    const struct item_run *x = items_run_at(a, i), *y = items_run_at(b, i);
    if (!x || !y) return (x != NULL) - (y != NULL);
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    int r = memcmp(x->digest, y->digest, sizeof(x->digest));
    if (r) return r;
    uint32_t p = place(a, x, i), q = place(b, y, i);
    return (p > q) - (p < q);
}

/* The ids of the first @n items are equal: the number of items that are equal in all. */
static uint32_t common_runs(const struct items *a, const struct items *b, uint32_t n)
{
    for (uint32_t k = run_after(a, a->base), i = 0; k < a->n_runs && a->runs[k].at < (uint64_t)a->base + n; k++) {
        const struct item_run *x = &a->runs[k];
        if (x->at > a->base + i) i = x->at - a->base;
        for (uint32_t end = end_of(a, x, n); i < end;) {
            if (compare_runs(a, b, i) != 0) return i;
            i = end_of(b, items_run_at(b, i), end);
        }
    }
    return n;
}

uint32_t items_common(const struct items *a, const struct items *b)
{
    uint32_t n = a->n < b->n ? a->n : b->n, i = 0;
    while (i < n && a->ids[i] == b->ids[i]) i++;
    return a->n_runs && b->n_runs ? common_runs(a, b, i) : i;
}

bool items_equal(const struct items *a, const struct items *b)
{
    if (a->n != b->n || (a->n && memcmp(a->ids, b->ids, a->n * sizeof(*a->ids)) != 0)) return false;
    return !a->n_runs || !b->n_runs || common_runs(a, b, a->n) == a->n; /* without runs, equal ids are tokens */
}

int items_compare(const struct items *a, const struct items *b)
{
    uint32_t n = a->n < b->n ? a->n : b->n;
    if (!a->n_runs || !b->n_runs) {
        int r = n ? memcmp(a->ids, b->ids, n * sizeof(*a->ids)) : 0;
        return r ? r : (a->n > b->n) - (a->n < b->n);
    }
    uint32_t i = items_common(a, b);
    if (i == n) return (a->n > b->n) - (a->n < b->n);
    int r = memcmp(&a->ids[i], &b->ids[i], sizeof(*a->ids));
    return r ? r : compare_runs(a, b, i);
}

uint32_t items_cut(const struct items *t, struct item_run *out)
{
    uint32_t n = 0;
    if (t->n == 0) return 0;
    for (uint32_t k = run_after(t, t->base); k < t->n_runs && t->runs[k].at < (uint64_t)t->base + t->n; k++) {
        const struct item_run *r = &t->runs[k];
        uint32_t from = r->at > t->base ? r->at - t->base : 0;
        out[n] = *r;
        out[n].at = from;
        out[n].n = end_of(t, r, t->n) - from;
        out[n++].offset = place(t, r, from);
    }
    return n;
}

uint32_t items_stretch(const struct items *t)
{
    uint32_t k = t->n_runs ? run_after(t, t->base) : 0;
    if (t->n == 0 || k == t->n_runs) return t->n;
    if (t->runs[k].at <= t->base) return end_of(t, &t->runs[k], t->n);
    return t->runs[k].at - t->base < t->n ? t->runs[k].at - t->base : t->n;
}

/* Numbers that a run takes. */
static uint32_t extent(const struct item_run *r)
{
    if (!r->columns) return r->n;
    uint32_t rows = (r->n - 1) / r->columns + 1;
    return rows > r->columns ? rows : r->columns;
}

bool items_places(const struct items *t, uint32_t from, uint32_t n, struct item_place *out)
{
    uint32_t back = 0, k = 0; /* how much lower numbers are than positions */
    bool grid = false;
    for (uint32_t i = 0; i < t->n_runs && t->runs[i].at < (uint64_t)from + n; i++) grid |= t->runs[i].columns > 0;
    for (uint32_t i = from; grid && i - from < n; i++) {
        for (; k < t->n_runs && (uint64_t)t->runs[k].at + t->runs[k].n <= i; k++)
            back += t->runs[k].n - extent(&t->runs[k]);
        const struct item_run *r = k < t->n_runs && t->runs[k].at <= i && t->runs[k].columns ? &t->runs[k] : NULL;
        uint32_t first = (r ? r->at : i) - back, at = r ? i - r->at : 0, columns = r ? r->columns : 1;
        out[i - from] = (struct item_place){{first, first + at / columns, first + at % columns}};
    }
    return grid;
}

/* The ids from @from to @to are those of a run, or all tokens. */
static bool check_ids(const struct items *t, uint32_t from, uint32_t to, bool run)
{
    for (; from < to; from++)
        if ((t->ids[from] == ITEM_EMBD) != run) return false;
    return true;
}

bool items_check(const struct items *t)
{
    uint32_t at = 0;
    for (uint32_t k = 0; k < t->n_runs; k++) {
        const struct item_run *r = &t->runs[k];
        if (r->at < at || r->at > t->n || r->n == 0 || r->n > t->n - r->at) return false;
        if (r->kind == 0 || r->kind > ITEM_KIND_MAX || r->offset > UINT32_MAX - r->n) return false;
        if (r->offset && r->at) return false;
        if (!check_ids(t, at, r->at, false) || !check_ids(t, r->at, r->at + r->n, true)) return false;
        at = r->at + r->n;
    }
    return check_ids(t, at, t->n, false);
}

/* SPDX-License-Identifier: MIT */
/* Inside a row: the order of the waiting items, and the classes of bytes. */
#include "daemon/text/grammar/rows.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int compare_waiting(const struct rules *g, const struct row_item *x, const struct row_item *y)
{
    uint32_t a = g->symbols[x->dot].index, b = g->symbols[y->dot].index;
    return a != b ? (a < b ? -1 : 1) : item_compare(x, y);
}

/* Heap sort. */
static void sift(const struct rules *g, struct row_item *v, size_t i, size_t n)
{
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && compare_waiting(g, &v[child], &v[child + 1]) < 0) child++;
        if (compare_waiting(g, &v[i], &v[child]) >= 0) return;
        struct row_item x = v[i];
        v[i] = v[child];
        v[child] = x;
    }
}

void rows_sort_waiting(const struct rules *g, struct row_item *v, size_t n)
{
    for (size_t i = n / 2; i-- > 0;) sift(g, v, i, n);
    for (size_t i = n; i-- > 1;) {
        struct row_item x = v[0];
        v[0] = v[i];
        v[i] = x;
        sift(g, v, 0, i);
    }
}

static bool no_memory(struct rows *r)
{
    r->status = -ENOMEM;
    return false;
}

/* Gives the classes 0 .. n the lowest numbers. Returns how many there are. */
static uint32_t compact(uint16_t *of, uint32_t n)
{
    uint16_t to[512] = {0};
    uint32_t next = 0;
    for (int b = 0; b < 256; b++) to[of[b]] = 1;
    for (uint32_t k = 0; k < n; k++)
        if (to[k]) to[k] = (uint16_t)next++;
    for (int b = 0; b < 256; b++) of[b] = to[of[b]];
    return next;
}

/* Bytes that all threads treat alike are in one class. */
static bool own_classes(struct rows *r, struct row *w)
{
    uint32_t n = 1;
    w->own = calloc(256, sizeof(*w->own));
    if (!w->own) return no_memory(r);
    for (uint32_t i = 0; i < w->n_threads; i++) {
        const struct dfa_state *q = &r->dfa.states[row_threads(w)[i].state];
        uint32_t pairs[256], before = n;
        for (int b = 0; b < 256; b++) {
            if (!byte_set_has(&q->live, (uint8_t)b)) continue;
            uint32_t pair = (uint32_t)w->own[b] << 16 | q->edges->of[b], k = before;
            while (k < n && pairs[k - before] != pair) k++;
            if (k == n) pairs[n++ - before] = pair;
            w->own[b] = (uint16_t)k;
        }
        if (n > 256) n = compact(w->own, n);
    }
    w->of = w->own;
    w->n_classes = compact(w->own, n);
    return true;
}

bool rows_make_classes(struct rows *r, struct row *w)
{
    if (w->n_threads == 1) {
        const struct dfa_edges *e = r->dfa.states[row_threads(w)[0].state].edges;
        w->of = e->of;
        w->n_classes = e->n;
    } else if (!own_classes(r, w)) {
        return false;
    }
    w->to = malloc(w->n_classes * sizeof(*w->to));
    if (!w->to) {
        free(w->own);
        w->own = NULL;
        w->n_classes = 0;
        return no_memory(r);
    }
    memset(w->to, 0xff, w->n_classes * sizeof(*w->to));
    r->bytes += w->n_classes * sizeof(*w->to) + (w->own ? 512 : 0);
    return true;
}

/* SPDX-License-Identifier: MIT */
#include "daemon/text/tokenizer/merge.h"
#include "libcommon/error.h"
#include <stdlib.h>

void merger_fini(struct merger *m)
{
    free(m->symbols);
    free(m->heap);
    buf_fini(&m->norm);
    *m = (struct merger){0};
}

void merger_reset(struct merger *m)
{
    m->n = 0;
    m->heap_n = 0;
}

int merger_add(struct merger *m, uint32_t off, uint32_t len, int32_t id)
{
    if (m->n == m->cap) {
        size_t cap = m->cap ? m->cap + m->cap / 2 : 64;
        struct symbol *symbols = reallocarray(m->symbols, cap, sizeof(*symbols));
        if (!symbols) return error_origin(-ENOMEM);
        m->symbols = symbols;
        m->cap = cap;
    }
    uint32_t i = (uint32_t)m->n++;
    m->symbols[i] =
        (struct symbol){.off = off, .len = len, .prev = i ? i - 1 : SYMBOL_NONE, .next = SYMBOL_NONE, .id = id};
    if (i) m->symbols[i - 1].next = i;
    return 0;
}

static int heap_push(struct merger *m, struct merge_candidate c)
{
    if (m->heap_n == m->heap_cap) {
        size_t cap = m->heap_cap ? m->heap_cap + m->heap_cap / 2 : 64;
        struct merge_candidate *heap = reallocarray(m->heap, cap, sizeof(*heap));
        if (!heap) return error_origin(-ENOMEM);
        m->heap = heap;
        m->heap_cap = cap;
    }
    size_t i = m->heap_n++;
    while (i && m->heap[(i - 1) / 2].key > c.key) {
        m->heap[i] = m->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    m->heap[i] = c;
    return 0;
}

static struct merge_candidate heap_pop(struct merger *m)
{
    struct merge_candidate top = m->heap[0], last = m->heap[--m->heap_n];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < m->heap_n) {
        if (child + 1 < m->heap_n && m->heap[child + 1].key < m->heap[child].key) child++;
        if (last.key <= m->heap[child].key) break;
        m->heap[i] = m->heap[child];
        i = child;
    }
    m->heap[i] = last;
    return top;
}

/* Adds the pair that begins with symbol @left to the heap, if it can be merged. */
static int consider(struct merger *m, uint32_t left, const struct tokenizer *t, const char *text, merge_fn fn)
{
    if (left == SYMBOL_NONE || m->symbols[left].next == SYMBOL_NONE) return 0;
    const struct symbol *l = &m->symbols[left], *r = &m->symbols[l->next];
    uint32_t order;
    int32_t id;
    if (!fn(t, text, l, r, &order, &id)) return 0;
    return heap_push(m, (struct merge_candidate){(uint64_t)order << 32 | left, l->len + r->len, id});
}

int merger_run(struct merger *m, const struct tokenizer *t, const char *text, merge_fn fn)
{
    for (uint32_t i = 0; i + 1 < m->n; i++) {
        int r = consider(m, i, t, text, fn);
        if (r < 0) return r;
    }
    while (m->heap_n) {
        struct merge_candidate c = heap_pop(m);
        uint32_t left = (uint32_t)c.key;
        struct symbol *l = &m->symbols[left];
        /* Symbols only grow: if the size is equal, both are unchanged since the pair was found. */
        if (!l->len || l->next == SYMBOL_NONE || l->len + m->symbols[l->next].len != c.size) continue;
        struct symbol *right = &m->symbols[l->next];
        l->len = c.size;
        l->id = c.id;
        l->next = right->next;
        right->len = 0;
        if (l->next != SYMBOL_NONE) m->symbols[l->next].prev = left;
        int r = consider(m, l->prev, t, text, fn);
        if (r < 0) return r;
        r = consider(m, left, t, text, fn);
        if (r < 0) return r;
    }
    return 0;
}

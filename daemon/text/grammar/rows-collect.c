/* SPDX-License-Identifier: MIT */
/* Frees the rows that no holder needs. */
#include "daemon/text/grammar/rows.h"
#include <stdlib.h>
#include <string.h>

/* Marks @row; it joins @stack if it was not marked. */
static void mark(struct rows *r, uint32_t row, uint32_t *stack, size_t *n)
{
    if (row == ROW_SELF || row == ROW_DEAD || r->rows[row].marked) return;
    r->rows[row].marked = true;
    stack[(*n)++] = row;
}

static void mark_all(struct rows *r, uint32_t *stack)
{
    size_t n = 0;
    for (uint32_t i = 1; i < r->n; i++) {
        r->rows[i].marked = false;
    }
    for (uint32_t i = 1; i < r->n; i++)
        if (r->rows[i].used && r->rows[i].pins) mark(r, i, stack, &n);
    while (n) {
        const struct row *w = &r->rows[stack[--n]];
        size_t items = (size_t)w->n_kernel + w->n_threads + w->n_tokens + w->n_waiting;
        for (size_t i = 0; i < items; i++) mark(r, w->items[i].origin, stack, &n);
    }
}

static void rows_collect(struct rows *r)
{
    size_t idle = grammar_memory_is_short(r->share.memory) ? ROWS_BYTES_LOW : ROWS_BYTES_IDLE;
    bool failed = r->status == -EDQUOT; /* the last question */
    if (!failed && r->bytes < 2 * r->held + idle) return;
    uint32_t *stack = calloc(r->n, sizeof(*stack));
    if (!stack) return; /* later, then */
    mark_all(r, stack);
    free(stack);
    r->bytes = 0;
    r->n_used = 0;
    memset(r->table, 0, (r->mask + 1) * sizeof(*r->table));
    for (uint32_t i = 1; i < r->n; i++) {
        struct row *w = &r->rows[i];
        if (!w->used) continue;
        /* Classes and steps are made again when they are needed. */
        free(w->own);
        free(w->to);
        free(w->finish);
        w->own = NULL;
        w->to = w->finish = NULL;
        w->of = NULL;
        w->n_classes = 0;
        size_t items = (size_t)w->n_kernel + w->n_threads + w->n_tokens + w->n_waiting;
        if (w->marked) {
            size_t at = w->hash & r->mask;
            while (r->table[at]) at = (at + 1) & r->mask;
            r->table[at] = i + 1;
            r->n_used++;
            r->bytes += sizeof(*w) + items * sizeof(*w->items);
        } else {
            free(w->items);
            *w = (struct row){0};
            r->free_rows[r->n_free++] = i;
        }
    }
    r->held = r->bytes;
    if (failed) r->status = 0;
    grammar_share_trim(&r->share, r->bytes);
}

void rows_begin(struct rows *r)
{
    regex_allow_work(&r->dfa.store, REGEX_CALL_WORK);
    rows_collect(r);
    r->call_max = r->bytes + ROWS_BYTES_CALL < ROWS_BYTES_MAX ? r->bytes + ROWS_BYTES_CALL : ROWS_BYTES_MAX;
}

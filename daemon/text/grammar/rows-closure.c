/* SPDX-License-Identifier: MIT */
/* From the kernel of a row to all of its items: prediction and completion. */
#include "daemon/text/grammar/rows.h"
#include <stdlib.h>
#include <string.h>

#define COMPLETED UINT32_MAX /* as the state of a noted completion: dot is the nonterminal */

bool item_push(struct rows *r, struct item_list *l, struct row_item x)
{
    if (l->n >= ROW_ITEMS_MAX) {
        r->status = -E2BIG;
        return false;
    }
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 64;
        struct row_item *v = reallocarray(l->v, cap, sizeof(*v));
        if (!v) {
            r->status = -ENOMEM;
            return false;
        }
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = x;
    return true;
}

int item_compare(const void *a, const void *b)
{
    const struct row_item *x = a, *y = b;
    if (x->dot != y->dot) return x->dot < y->dot ? -1 : 1;
    if (x->origin != y->origin) return x->origin < y->origin ? -1 : 1;
    if (x->count != y->count) return x->count < y->count ? -1 : 1;
    return (x->state > y->state) - (x->state < y->state);
}

struct row_item item_advance(const struct rows *r, const struct row_item *x, uint32_t self)
{
    const struct symbol *y = &r->rules.symbols[x->dot];
    struct row_item next = {.dot = x->dot, .origin = x->origin == ROW_SELF ? self : x->origin};
    if (y->repeat)
        next.count = rules_count(&r->rules.nonterminals[y->lhs], x->count);
    else
        next.dot++;
    return next;
}

static size_t item_hash(const struct row_item *x)
{
    uint64_t h = (x->dot * 0x9e3779b97f4a7c15u) ^ (x->origin * 0xc2b2ae3d27d4eb4fu) ^ (x->count * 0x165667b19e3779f9u) ^
                 x->state;
    h *= 0x9e3779b97f4a7c15u;
    return (size_t)(h >> 29);
}

/* Makes the table of seen items, with room for twice as many as work has. */
static bool widen_seen(struct rows *r)
{
    size_t size = 128, is = r->seen ? r->seen_mask + 1 : 0;
    while (size < r->work.n * 4) size *= 2;
    if (size < is && is <= 1024) size = is; /* a table that a large row has left is not cleared again and again */
    if (size != is) {
        uint32_t *t = calloc(size, sizeof(*t));
        if (!t) {
            r->status = -ENOMEM;
            return false;
        }
        free(r->seen);
        r->seen = t;
        r->seen_mask = size - 1;
    } else {
        memset(r->seen, 0, size * sizeof(*r->seen));
    }
    for (size_t i = 0; i < r->work.n; i++) {
        size_t at = item_hash(&r->work.v[i]) & r->seen_mask;
        while (r->seen[at]) at = (at + 1) & r->seen_mask;
        r->seen[at] = (uint32_t)i + 1;
    }
    return true;
}

/* Adds an item to the work unless the work has it. */
static bool add(struct rows *r, struct row_item x)
{
    if (!regex_work(&r->dfa.store, 8)) return false;
    if ((r->work.n + 1) * 2 > r->seen_mask && !widen_seen(r)) return false;
    size_t at = item_hash(&x) & r->seen_mask;
    for (; r->seen[at]; at = (at + 1) & r->seen_mask)
        if (!item_compare(&r->work.v[r->seen[at] - 1], &x)) return true;
    if (!item_push(r, &r->work, x)) return false;
    r->seen[at] = (uint32_t)r->work.n;
    return true;
}

uint32_t rows_first_waiting(const struct rows *r, const struct row *w, uint32_t n)
{
    const struct row_item *v = row_waiting(w);
    uint32_t low = 0, high = w->n_waiting;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (r->rules.symbols[v[middle].dot].index < n)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Nonterminal @n, which began in row @origin, ends here. */
static bool complete(struct rows *r, uint32_t n, uint32_t origin, bool *accepted)
{
    if (n == 0) *accepted = true;
    if (n == 0 || origin == ROW_SELF) return true;
    size_t before = r->work.n;
    if (!add(r, (struct row_item){n, origin, 0, COMPLETED})) return false;
    if (r->work.n == before) return true;
    const struct row *w = &r->rows[origin];
    for (uint32_t i = rows_first_waiting(r, w, n); i < w->n_waiting; i++) {
        const struct row_item *x = &row_waiting(w)[i];
        if (r->rules.symbols[x->dot].index != n) break;
        if (!add(r, item_advance(r, x, origin))) return false;
    }
    return true;
}

static bool predict(struct rows *r, uint32_t n)
{
    if (r->predicted[n] == r->stamp) return true;
    r->predicted[n] = r->stamp;
    const struct nonterminal *x = &r->rules.nonterminals[n];
    for (uint32_t i = 0; i < x->n; i++)
        if (!add(r, (struct row_item){r->rules.first_dots[x->first + i], ROW_SELF, 0, 0})) return false;
    return true;
}

/* An item whose symbol is a terminal, a nonterminal or a token. */
static bool expect(struct rows *r, const struct row_item *x, const struct symbol *y)
{
    bool nullable = false;
    if (y->kind == SYMBOL_TOKENS) return item_push(r, &r->tokens, *x);
    if (y->kind == SYMBOL_TERMINAL) {
        if (!r->dfa.states[y->index].edges && !dfa_expand(&r->dfa, y->index)) return false;
        const struct dfa_state *q = &r->dfa.states[y->index];
        struct row_item thread = *x;
        thread.state = y->index;
        if (!byte_set_is_empty(&q->live) && !item_push(r, &r->threads, thread)) return false;
        nullable = q->nullable;
    } else {
        if (!item_push(r, &r->waiting, *x) || !predict(r, y->index)) return false;
        nullable = r->rules.nonterminals[y->index].nullable;
    }
    return !nullable || y->repeat || add(r, item_advance(r, x, ROW_SELF));
}

static bool process(struct rows *r, struct row_item x, bool *accepted)
{
    if (x.state == COMPLETED) return true;
    if (x.state) return item_push(r, &r->threads, x);
    const struct symbol *y = &r->rules.symbols[x.dot];
    if (y->kind == SYMBOL_END) return complete(r, y->lhs, x.origin, accepted);
    if (y->repeat) {
        const struct nonterminal *n = &r->rules.nonterminals[y->lhs];
        if (x.count >= n->min && !complete(r, y->lhs, x.origin, accepted)) return false;
        if (n->max != EXPR_UNLIMITED && x.count >= n->max) return true;
    }
    return expect(r, &x, y);
}

bool rows_close(struct rows *r, bool *accepted)
{
    r->work.n = r->threads.n = r->tokens.n = r->waiting.n = 0;
    *accepted = false;
    if (++r->stamp == 0) {
        memset(r->predicted, 0, r->rules.n_nonterminals * sizeof(*r->predicted));
        r->stamp = 1;
    }
    if (!widen_seen(r)) return false;
    for (size_t i = 0; i < r->kernel.n; i++)
        if (!add(r, r->kernel.v[i])) return false;
    for (size_t i = 0; i < r->work.n; i++)
        if (!process(r, r->work.v[i], accepted)) return false;
    return true;
}

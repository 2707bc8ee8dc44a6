/* SPDX-License-Identifier: MIT */
#include "daemon/text/grammar/rows.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

int rows_status(struct rows *r)
{
    if (r->dfa.store.status) return dfa_status(&r->dfa);
    if (r->status == -E2BIG)
        return error_say(-E2BIG, "the constraint is too ambiguous: more than %u parses or %zu MiB of them",
                         ROW_ITEMS_MAX, ROWS_BYTES_MAX >> 20);
    if (r->status == -EDQUOT) return grammar_memory_error(r->share.memory);
    return error_origin(r->status ? r->status : -ENOMEM);
}

static uint32_t failed(struct rows *r, int status)
{
    r->status = status;
    return ROW_FAILED;
}

static uint32_t hash_kernel(const struct row_item *v, size_t n)
{
    uint64_t h = n;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ v[i].dot) * 0x9e3779b97f4a7c15u;
        h = (h ^ h >> 29 ^ v[i].origin) * 0xc2b2ae3d27d4eb4fu;
        h = (h ^ h >> 31 ^ ((uint64_t)v[i].count << 32 | v[i].state)) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    return (uint32_t)h;
}

static void table_add(struct rows *r, uint32_t row)
{
    size_t at = r->rows[row].hash & r->mask;
    while (r->table[at]) at = (at + 1) & r->mask;
    r->table[at] = row + 1;
}

static bool rebuild_table(struct rows *r, size_t size)
{
    uint32_t *t = calloc(size, sizeof(*t));
    if (!t) return failed(r, -ENOMEM) != ROW_FAILED;
    free(r->table);
    r->table = t;
    r->mask = size - 1;
    for (size_t i = 1; i < r->n; i++)
        if (r->rows[i].used) table_add(r, (uint32_t)i);
    return true;
}

/* A free row number. */
static uint32_t take_row(struct rows *r)
{
    if (r->n_free) return r->free_rows[--r->n_free];
    if (r->n == r->cap) {
        size_t cap = r->cap ? r->cap * 2 : 64;
        struct row *v = reallocarray(r->rows, cap, sizeof(*v));
        if (v) r->rows = v;
        uint32_t *f = v ? reallocarray(r->free_rows, cap, sizeof(*f)) : NULL;
        if (!f) return failed(r, -ENOMEM);
        r->free_rows = f;
        r->cap = cap;
    }
    r->rows[r->n] = (struct row){0};
    return (uint32_t)r->n++;
}

static size_t row_bytes(const struct row *w)
{
    size_t items = (size_t)w->n_kernel + w->n_threads + w->n_tokens + w->n_waiting;
    return sizeof(*w) + items * sizeof(*w->items) + w->n_classes * sizeof(*w->to) + (w->own ? 512 : 0);
}

static bool fill_row(struct rows *r, struct row *w, bool accepted)
{
    size_t n = r->kernel.n + r->threads.n + r->tokens.n + r->waiting.n;
    *w = (struct row){.n_kernel = (uint32_t)r->kernel.n,
                      .n_threads = (uint32_t)r->threads.n,
                      .n_tokens = (uint32_t)r->tokens.n,
                      .n_waiting = (uint32_t)r->waiting.n,
                      .accepted = accepted,
                      .used = true};
    w->items = calloc(n + 1, sizeof(*w->items));
    if (!w->items) return failed(r, -ENOMEM) != ROW_FAILED;
    struct row_item *to = w->items;
    const struct item_list *lists[] = {&r->kernel, &r->threads, &r->tokens, &r->waiting};
    for (int i = 0; i < 4; to += lists[i++]->n)
        if (lists[i]->n) memcpy(to, lists[i]->v, lists[i]->n * sizeof(*to));
    rows_sort_waiting(&r->rules, w->items + (n - w->n_waiting), w->n_waiting);
    for (uint32_t i = 0; i < w->n_threads; i++)
        for (int k = 0; k < 4; k++) w->live.w[k] |= r->dfa.states[row_threads(w)[i].state].live.w[k];
    r->bytes += row_bytes(w);
    return true;
}

/* The row of r->kernel, which gets sorted. */
static uint32_t intern(struct rows *r)
{
    struct item_list *k = &r->kernel;
    if (k->n == 0) return ROW_DEAD;
    if (k->n > 1) qsort(k->v, k->n, sizeof(*k->v), item_compare);
    size_t kept = 0;
    for (size_t i = 0; i < k->n; i++)
        if (i == 0 || item_compare(&k->v[i], &k->v[i - 1])) k->v[kept++] = k->v[i];
    k->n = kept;
    uint32_t hash = hash_kernel(k->v, k->n);
    for (size_t at = hash & r->mask; r->table[at]; at = (at + 1) & r->mask) {
        const struct row *w = &r->rows[r->table[at] - 1];
        if (w->hash == hash && w->n_kernel == k->n && !memcmp(w->items, k->v, k->n * sizeof(*k->v)))
            return r->table[at] - 1;
    }
    bool accepted;
    r->status = 0;
    if (!rows_close(r, &accepted)) return ROW_FAILED;
    if (!accepted && r->threads.n == 0 && r->tokens.n == 0) return ROW_DEAD;
    if (r->bytes > r->call_max) return failed(r, -E2BIG);
    if (!grammar_share_cover(&r->share, r->bytes)) return failed(r, -EDQUOT);
    if ((r->n_used + 1) * 2 > r->mask && !rebuild_table(r, (r->mask + 1) * 2)) return ROW_FAILED;
    uint32_t row = take_row(r);
    if (row == ROW_FAILED) return row;
    if (!fill_row(r, &r->rows[row], accepted)) {
        r->rows[row] = (struct row){0};
        r->free_rows[r->n_free++] = row;
        return ROW_FAILED;
    }
    r->rows[row].hash = hash;
    r->n_used++;
    table_add(r, row);
    return row;
}

int rows_init(struct rows *r, struct rules *g, struct dfa *d)
{
    *r = (struct rows){.rules = *g, .dfa = *d, .call_max = ROWS_BYTES_CALL};
    *g = (struct rules){0};
    *d = (struct dfa){0};
    r->share.memory = grammar_memory_ref(r->dfa.store.share.memory);
    r->predicted = calloc(r->rules.n_nonterminals + 1, sizeof(*r->predicted));
    if (!r->predicted || !rebuild_table(r, 256) || take_row(r) == ROW_FAILED) return error_origin(-ENOMEM);
    return 0;
}

static void row_fini(struct row *w)
{
    free(w->items);
    free(w->own);
    free(w->to);
    free(w->finish);
}

void rows_fini(struct rows *r)
{
    for (size_t i = 0; i < r->n; i++) row_fini(&r->rows[i]);
    free(r->rows);
    free(r->table);
    free(r->free_rows);
    free(r->kernel.v);
    free(r->work.v);
    free(r->threads.v);
    free(r->tokens.v);
    free(r->waiting.v);
    free(r->seen);
    free(r->predicted);
    grammar_share_close(&r->share);
    dfa_fini(&r->dfa);
    rules_fini(&r->rules);
}

uint32_t rows_start(struct rows *r)
{
    const struct nonterminal *n = &r->rules.nonterminals[0];
    r->kernel.n = 0;
    for (uint32_t i = 0; i < n->n; i++)
        if (!item_push(r, &r->kernel, (struct row_item){.dot = r->rules.first_dots[n->first + i]})) return ROW_FAILED;
    return intern(r);
}

/* Adds to the kernel the threads of @w (row @self) behind byte @b. */
static bool step_threads(struct rows *r, uint32_t self, uint8_t b)
{
    const struct row *w = &r->rows[self];
    for (uint32_t i = 0; i < w->n_threads; i++) {
        const struct row_item *x = &row_threads(w)[i];
        uint32_t q = dfa_step(&r->dfa, x->state, b);
        if (q == UINT32_MAX || (!r->dfa.states[q].edges && !dfa_expand(&r->dfa, q))) return false;
        if (q == 0) continue;
        struct row_item next = {x->dot, x->origin == ROW_SELF ? self : x->origin, x->count, q};
        if (!byte_set_is_empty(&r->dfa.states[q].live) && !item_push(r, &r->kernel, next)) return false;
        if (r->dfa.states[q].nullable && !item_push(r, &r->kernel, item_advance(r, x, self))) return false;
    }
    return true;
}

uint32_t rows_step(struct rows *r, uint32_t row, uint8_t b)
{
    struct row *w = &r->rows[row];
    if (!byte_set_has(&w->live, b)) return ROW_DEAD;
    if (!w->to && !rows_make_classes(r, w)) return ROW_FAILED;
    uint32_t class = w->of[b], next = w->to[class];
    if (next != UINT32_MAX) return next;
    r->kernel.n = 0;
    if (!step_threads(r, row, b)) return ROW_FAILED;
    next = intern(r);
    if (next != ROW_FAILED) r->rows[row].to[class] = next;
    return next;
}

uint32_t rows_steps(struct rows *r, uint32_t row, const char *s, size_t n)
{
    for (size_t i = 0; i < n && row != ROW_DEAD && row != ROW_FAILED; i++) row = rows_step(r, row, (uint8_t)s[i]);
    return row;
}

bool token_set_has(const struct token_set *set, int32_t id)
{
    size_t low = 0, high = set->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return (low < set->n && set->ids[low] == id) != set->others;
}

uint32_t rows_token(struct rows *r, uint32_t row, int32_t id, const char *s, size_t n)
{
    uint32_t text = s ? rows_steps(r, row, s, n) : ROW_DEAD;
    if (text == ROW_FAILED || r->rows[row].n_tokens == 0) return text;
    r->kernel.n = 0;
    const struct row *w = &r->rows[row], *t = &r->rows[text];
    for (uint32_t i = 0; i < t->n_kernel; i++)
        if (!item_push(r, &r->kernel, t->items[i])) return ROW_FAILED;
    for (uint32_t i = 0; i < w->n_tokens; i++) {
        const struct row_item *x = &row_tokens(w)[i];
        const struct token_set *set = &r->rules.token_sets[r->rules.symbols[x->dot].index];
        if (!token_set_has(set, id) || (set->others && !s)) continue;
        if (!item_push(r, &r->kernel, item_advance(r, x, row))) return ROW_FAILED;
    }
    return intern(r);
}

uint32_t rows_after(struct rows *r, uint32_t row, const struct row_item *threads, size_t n)
{
    r->kernel.n = 0;
    for (size_t i = 0; i < n; i++)
        if (!item_push(r, &r->kernel, item_advance(r, &threads[i], row))) return ROW_FAILED;
    return intern(r);
}

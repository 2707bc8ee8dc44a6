/* SPDX-License-Identifier: MIT */
/* The bytes that must follow, and the shortest completion. */
#include "daemon/text/grammar/grammar-inside.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

#define NESTING_MAX 10000u /* rows whose items began in one another */

/* The only byte that may follow in @w; -1: there is a choice, or the text may end. */
static int only_byte(const struct row *w)
{
    int b = -1;
    if (w->accepted || w->n_tokens) return -1;
    for (int i = 0; i < 4; i++) {
        if (!w->live.w[i]) continue;
        if (b >= 0 || w->live.w[i] & (w->live.w[i] - 1)) return -1;
        b = i * 64 + __builtin_ctzll(w->live.w[i]);
    }
    return b;
}

int grammar_state_forced(struct grammar_state *st, struct buf *out, size_t max)
{
    struct rows *rows = &st->g->rows;
    uint32_t row = state_row(st);
    int r = 0, b;
    pthread_mutex_lock(&st->g->lock);
    rows_begin(rows);
    for (size_t i = 0; i < max && r == 0 && (b = only_byte(&rows->rows[row])) >= 0; i++) {
        const char c = (char)b;
        row = rows_step(rows, row, (uint8_t)b);
        r = row == ROW_FAILED ? rows_status(rows) : buf_append(out, &c, 1);
    }
    pthread_mutex_unlock(&st->g->lock);
    return r;
}

static uint32_t sum(uint32_t a, uint32_t b)
{
    return a + b < REGEX_LEN_MAX ? a + b : REGEX_LEN_MAX;
}

/* The bytes behind the symbol of @x up to the end of its production. */
static uint32_t rest_length(const struct rows *r, const struct row_item *x)
{
    const struct row_item next = item_advance(r, x, ROW_SELF);
    return rules_length_from(&r->rules, &r->dfa, next.dot, next.count);
}

static const struct symbol *symbol_at(const struct rows *r, const struct row_item *x)
{
    return &r->rules.symbols[x->dot];
}

/* The bytes that must follow nonterminal @n, which began in @w, up to the end of the text. w->finish is made. */
static uint32_t finish_of(const struct rows *r, const struct row *w, uint32_t n)
{
    if (n == 0) return 0;
    uint32_t i = rows_first_waiting(r, w, n);
    return i < w->n_waiting && symbol_at(r, &row_waiting(w)[i])->index == n ? w->finish[i] : REGEX_LEN_MAX;
}

/* The bytes behind the symbol of @x, an item of @w, up to the end of the text. */
static uint32_t length_behind(const struct rows *r, const struct row *w, const struct row_item *x)
{
    const struct row *origin = x->origin == ROW_SELF ? w : &r->rows[x->origin];
    return sum(rest_length(r, x), finish_of(r, origin, symbol_at(r, x)->lhs));
}

/* Within one row a nonterminal may wait for others of the row, also for itself: repeats until nothing gets shorter.
 * False: the work is too much. */
static bool relax(struct rows *r, struct row *w)
{
    const struct row_item *v = row_waiting(w);
    for (bool changed = true; changed;) {
        changed = false;
        if (!regex_work(&r->dfa.store, (size_t)w->n_waiting * 4)) return false;
        for (uint32_t i = 0, end; i < w->n_waiting; i = end) { /* the items that wait for one nonterminal */
            uint32_t len = REGEX_LEN_MAX;
            for (end = i; end < w->n_waiting && symbol_at(r, &v[end])->index == symbol_at(r, &v[i])->index; end++) {
                uint32_t own = length_behind(r, w, &v[end]);
                if (own < len) len = own;
            }
            if (len >= w->finish[i]) continue;
            changed = true;
            for (uint32_t k = i; k < end; k++) w->finish[k] = len;
        }
    }
    return true;
}

/* Fills the finish lengths of @row and of the rows where its items began, which are older. */
static bool make_finish(struct rows *r, uint32_t row, unsigned depth)
{
    struct row *w = &r->rows[row];
    if (row == ROW_DEAD || w->finish) return true;
    size_t items = (size_t)w->n_kernel + w->n_threads + w->n_tokens + w->n_waiting;
    if (depth > NESTING_MAX || !regex_work(&r->dfa.store, items)) return false;
    for (size_t i = 0; i < items; i++)
        if (w->items[i].origin != ROW_SELF && !make_finish(r, w->items[i].origin, depth + 1)) return false;
    w->finish = malloc((w->n_waiting + 1) * sizeof(*w->finish));
    if (!w->finish) return false;
    for (uint32_t i = 0; i < w->n_waiting; i++) w->finish[i] = REGEX_LEN_MAX;
    if (relax(r, w)) return true;
    free(w->finish);
    w->finish = NULL;
    return false;
}

/* The thread of @row with the shortest way to the end of the text; NULL: none has a known one. *len: its length. */
static const struct row_item *nearest(struct rows *r, uint32_t row, uint32_t *len)
{
    const struct row *w = &r->rows[row];
    const struct row_item *best = NULL;
    *len = REGEX_LEN_MAX;
    if (!regex_work(&r->dfa.store, (size_t)w->n_threads * 4)) return NULL;
    for (uint32_t i = 0; i < w->n_threads; i++) {
        const struct row_item *x = &row_threads(w)[i];
        uint32_t own;
        if (regex_min_len(&r->dfa.store, r->dfa.states[x->state].node, DFA_SEARCH_MAX, &own) < 0) continue;
        if (own == 0) continue; /* an item behind the terminal is in the row, too */
        uint32_t all = sum(own, length_behind(r, w, x));
        if (all >= *len) continue;
        *len = all;
        best = x;
    }
    return best;
}

/* Of the bytes of a class the one that looks best in a text. */
static uint8_t plain_byte(const struct dfa_edges *e, uint32_t class)
{
    static const char best[] = "a0A \"";
    for (const char *c = best; *c; c++)
        if (e->of[(uint8_t)*c] == class) return (uint8_t)*c;
    unsigned b = 0x20;
    for (unsigned i = 0; i < 256; i++, b = (b + 1) % 256)
        if (e->of[b] == class) break;
    return (uint8_t)b;
}

/* The first byte of the shortest string of state @q; -1: not known. */
static int first_byte(struct dfa *d, uint32_t q)
{
    uint32_t len, next;
    if (regex_min_len(&d->store, d->states[q].node, DFA_SEARCH_MAX, &len) < 0) return -1;
    const struct dfa_edges *e = d->states[q].edges;
    for (uint32_t k = 1; k < e->n; k++)
        if (regex_min_len(&d->store, d->states[e->to[k]].node, DFA_SEARCH_MAX, &next) == 0 && next + 1 == len)
            return plain_byte(e, k);
    return -1;
}

static int no_completion(struct rows *r, size_t max)
{
    if (r->dfa.store.status) return rows_status(r);
    return error_say(-E2BIG, "no completion of at most %zu bytes was found", max);
}

static int shortest(struct rows *r, uint32_t row, struct buf *out, size_t max)
{
    int status = rules_lengths(&r->rules, &r->dfa);
    if (status < 0) return rows_status(r);
    for (size_t n = 0; !r->rows[row].accepted; n++) {
        uint32_t len;
        if (!make_finish(r, row, 0)) return no_completion(r, max);
        const struct row_item *x = nearest(r, row, &len);
        int b = x && n + len <= max ? first_byte(&r->dfa, x->state) : -1;
        if (b < 0) return no_completion(r, max);
        row = rows_step(r, row, (uint8_t)b);
        const char c = (char)b;
        if (row == ROW_FAILED) return rows_status(r);
        if (buf_append(out, &c, 1) < 0) return error_origin(-ENOMEM);
    }
    return 0;
}

int grammar_state_shortest(struct grammar_state *st, struct buf *out, size_t max)
{
    struct rows *r = &st->g->rows;
    size_t before = out->len;
    if (grammar_state_has_ended(st)) return 0;
    pthread_mutex_lock(&st->g->lock);
    rows_begin(r);
    int status = shortest(r, state_row(st), out, max);
    pthread_mutex_unlock(&st->g->lock);
    if (status < 0) out->len = before;
    return status;
}

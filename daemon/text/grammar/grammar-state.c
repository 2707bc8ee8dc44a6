/* SPDX-License-Identifier: MIT */
#include "daemon/text/grammar/grammar-inside.h"
#include "daemon/text/grammar/token-trie.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

int grammar_state_new(struct grammar_state **out, struct grammar *g)
{
    struct grammar_state *st = calloc(1, sizeof(*st));
    uint32_t *rows = calloc(16, sizeof(*rows));
    if (!st || !rows) {
        free(st);
        free(rows);
        return error_origin(-ENOMEM);
    }
    *st = (struct grammar_state){grammar_ref(g), rows, 1, 16};
    pthread_mutex_lock(&g->lock);
    rows[0] = g->start;
    g->rows.rows[g->start].pins++;
    pthread_mutex_unlock(&g->lock);
    *out = st;
    return 0;
}

int grammar_state_clone(const struct grammar_state *st, struct grammar_state **out)
{
    struct grammar_state *c = calloc(1, sizeof(*c));
    uint32_t *rows = calloc(st->cap, sizeof(*rows));
    if (!c || !rows) {
        free(c);
        free(rows);
        return error_origin(-ENOMEM);
    }
    memcpy(rows, st->rows, st->n * sizeof(*rows));
    *c = (struct grammar_state){grammar_ref(st->g), rows, st->n, st->cap};
    pthread_mutex_lock(&st->g->lock);
    for (size_t i = 0; i < c->n; i++) st->g->rows.rows[rows[i]].pins++;
    pthread_mutex_unlock(&st->g->lock);
    *out = c;
    return 0;
}

void grammar_state_rollback(struct grammar_state *st, size_t n)
{
    pthread_mutex_lock(&st->g->lock);
    for (size_t i = 0; i < n; i++) st->g->rows.rows[st->rows[--st->n]].pins--;
    pthread_mutex_unlock(&st->g->lock);
}

struct grammar_state *grammar_state_free(struct grammar_state *st)
{
    if (!st) return NULL;
    grammar_state_rollback(st, st->n);
    grammar_unref(st->g);
    free(st->rows);
    free(st);
    return NULL;
}

size_t grammar_state_accepts(const struct grammar_state *st)
{
    return st->n - 1;
}

static bool has_room(struct grammar_state *st)
{
    if (st->n < st->cap) return true;
    uint32_t *rows = reallocarray(st->rows, st->cap * 2, sizeof(*rows));
    if (!rows) return false;
    st->rows = rows;
    st->cap *= 2;
    return true;
}

/* Notes the row after an accept. The lock is held. */
static int push(struct grammar_state *st, uint32_t row)
{
    if (row == ROW_FAILED) return rows_status(&st->g->rows);
    st->g->rows.rows[row].pins++;
    st->rows[st->n++] = row;
    return 1;
}

int grammar_state_accept_bytes(struct grammar_state *st, const char *s, size_t n)
{
    if (!has_room(st)) return error_origin(-ENOMEM);
    if (state_row(st) == ROW_DEAD) return 0;
    pthread_mutex_lock(&st->g->lock);
    rows_begin(&st->g->rows);
    uint32_t row = rows_steps(&st->g->rows, state_row(st), s, n);
    int r = row == ROW_DEAD ? 0 : push(st, row);
    pthread_mutex_unlock(&st->g->lock);
    return r;
}

int grammar_state_accept_token(struct grammar_state *st, const struct token_trie *t, int32_t id)
{
    if (!has_room(st)) return error_origin(-ENOMEM);
    if (state_row(st) == ROW_DEAD) return 0;
    size_t n;
    const char *s = token_trie_text(t, id, &n);
    int r = 0;
    pthread_mutex_lock(&st->g->lock);
    rows_begin(&st->g->rows);
    uint32_t row = rows_token(&st->g->rows, state_row(st), id, s, n);
    if (row != ROW_DEAD)
        r = push(st, row);
    else if (token_trie_is_end(t, id) && st->g->rows.rows[state_row(st)].accepted)
        r = push(st, ROW_DEAD);
    pthread_mutex_unlock(&st->g->lock);
    return r;
}

bool grammar_state_has_ended(const struct grammar_state *st)
{
    return state_row(st) == ROW_DEAD;
}

/* A row's own properties change no more. */
static struct row look(struct grammar_state *st)
{
    pthread_mutex_lock(&st->g->lock);
    struct row w = st->g->rows.rows[state_row(st)];
    pthread_mutex_unlock(&st->g->lock);
    return w;
}

bool grammar_state_may_follow(struct grammar_state *st, uint8_t b)
{
    const struct row w = look(st);
    return byte_set_has(&w.live, b);
}

bool grammar_state_is_accepted(struct grammar_state *st)
{
    return look(st).accepted;
}

bool grammar_state_must_end(struct grammar_state *st)
{
    const struct row w = look(st);
    return w.accepted && w.n_threads == 0 && w.n_tokens == 0;
}

/* SPDX-License-Identifier: MIT */
#pragma once
/* The inside of grammars and states, for the files that answer questions about them. */
#include "daemon/text/grammar/grammar.h"
#include "daemon/text/grammar/rows.h"
#include <pthread.h>
#include <stdatomic.h>

#define MASK_SLOTS 64 /* masks that a grammar keeps */

/* The mask of a row. */
struct mask_slot {
    uint64_t *bits; /* [token_trie_words(trie)], allocated for @words */
    size_t words;
    uint64_t trie; /* its id */
    uint32_t row;
    bool recent; /* used since the last look for a slot to evict */
};

struct grammar {
    pthread_mutex_t lock; /* guards all below */
    struct rows rows;
    struct mask_slot slots[MASK_SLOTS];
    uint32_t next_slot;
    size_t slot_bytes;
    struct grammar_share share; /* covers @slot_bytes */
    uint32_t start;             /* pinned */
    atomic_uint refs;
};

/* Rows after the accepts so far. Each is pinned. */
struct grammar_state {
    struct grammar *g;
    uint32_t *rows; /* [n]; rows[0] is before any text; ROW_DEAD: behind an end of generation */
    size_t n, cap;
};

static inline uint32_t state_row(const struct grammar_state *st)
{
    return st->rows[st->n - 1];
}

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The items of a prompt, one for each position. An item is a token, or a part of a run of embeddings, such as an image.
 * The positions of a run have ITEM_EMBD in place of a token id, and the run is in a list beside the ids. Two items of
 * runs are equal if kind and digest of the runs are, and their places in the runs; nobody has to compare embeddings.
 * Runs of the same kind and digest have the same number of items. A list without runs is an array of token ids.
 */
#include <stdbool.h>
#include <stdint.h>

#define ITEM_EMBD INT32_MIN /* in place of a token id: the position is one of a run */

enum item_kind {
    ITEM_IMAGE = 1,
    ITEM_SOUND = 2,
    ITEM_ADAPTER = 3 /* one token, for the cache: the first that is computed with an adapter (sequence/adapted.h) */
};
#define ITEM_KIND_MAX ITEM_ADAPTER

/* A run, or a part of one. */
struct item_run {
    uint32_t at;      /* position of its first item */
    uint32_t n;       /* items, at least 1 */
    uint16_t kind;    /* enum item_kind */
    uint16_t columns; /* of the items as a grid, row by row, whose places are positions (struct item_place); 0: none */
    uint32_t offset;  /* items of the whole run before this part */
    uint8_t digest[16]; /* of all that the embeddings are made from */
};

_Static_assert(sizeof(struct item_run) == 32, "a run has no padding: it is hashed and compared as bytes");

/* The position of an item for M-RoPE: time, row, column. A token has one number three times. The items of a grid have
 * P, P + row, P + column; P is the number that a token in place of the first one would have. The number behind a grid
 * is P and the longer of its edges. */
struct item_place {
    uint32_t of[3];
};

/* Items, borrowed. */
struct items {
    const int32_t *ids; /* [n] */
    uint32_t n;
    uint32_t base;               /* the position of ids[0], as the runs count positions */
    const struct item_run *runs; /* [n_runs], ascending; runs outside of the items do not count */
    uint32_t n_runs;
};

static inline struct items items_tokens(const int32_t *ids, uint32_t n)
{
    return (struct items){.ids = ids, .n = n};
}

/* Drop the runs that end before the items begin. */
void items_skip_runs(struct items *t);

/* The items from @from on, which is at most t.n. */
static inline struct items items_from(struct items t, uint32_t from)
{
    t.ids += from;
    t.n -= from;
    t.base += from;
    if (t.n_runs) items_skip_runs(&t);
    return t;
}

/* The number of leading items that are equal. */
uint32_t items_common(const struct items *a, const struct items *b);
/* All items are equal, and there are as many. */
bool items_equal(const struct items *a, const struct items *b);
/* A total order: < 0, 0 or > 0. Items come before all others that begin with them. */
int items_compare(const struct items *a, const struct items *b);

/* Copy the parts of runs that are in @t to @out, with positions from ids[0] on; @out has room for the lesser of t->n
 * and t->n_runs. Returns their number. */
uint32_t items_cut(const struct items *t, struct item_run *out);

/* The number of leading items that are all tokens, or all of the same run; 0: there are no items. */
uint32_t items_stretch(const struct items *t);
/* The run that item @i belongs to; NULL: it is a token. */
const struct item_run *items_run_at(const struct items *t, uint32_t i);

/* The places of @n items from @from on, also behind the last one, in @out [n]. @t: all items before them, with base 0,
 * and whole runs. False: there is no grid, and the item at i has i three times; @out is not set. */
bool items_places(const struct items *t, uint32_t from, uint32_t n, struct item_place *out);

/* True: ids and runs agree, and each run that does not begin at position 0 begins in the items. With base 0. */
bool items_check(const struct items *t);

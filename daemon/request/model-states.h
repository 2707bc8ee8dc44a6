/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The model's states (WANT_HIDDEN) of the last items of a sequence, for an MTP layer that drafts: it reads the state of
 * each item with the item that follows. Items that it has read are dropped, and the oldest when there are too many:
 * then it begins behind them.
 */
#include <stddef.h>
#include <stdint.h>

/* Rows of a sequence: also the items of a prompt from which the layer begins. */
#define MODEL_STATES_MOST 256
/* Rows of memory: dropped ones stay until a quarter is full of them, and the others move at once. */
#define MODEL_STATES_ROOM 320

struct model_states {
    float *rows;    /* [room][dim], room <= MODEL_STATES_ROOM */
    uint32_t first; /* row of the item at */
    uint32_t at, n; /* the states are those of the items [at, at + n) */
    uint32_t room;
};

/* A step has computed the @n items from @at on: their states @rows [n][dim]. Those that it has from @at on were of
 * other items, and are replaced. Without memory it has none. */
void model_states_add(struct model_states *t, uint32_t at, uint32_t n, const float *rows, uint32_t dim);

/* Forget those of the items before @at. */
void model_states_drop(struct model_states *t, uint32_t at);

void model_states_fini(struct model_states *t);

/* [dim] of the item @i; NULL: it has none. The rows of the items behind it follow. */
static inline const float *model_states_of(const struct model_states *t, uint32_t i, uint32_t dim)
{
    return i >= t->at && i - t->at < t->n ? t->rows + (uint64_t)(t->first + i - t->at) * dim : NULL;
}

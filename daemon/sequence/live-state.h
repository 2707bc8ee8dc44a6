/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The recurrent state of a sequence, where the model has recurrent layers. While it has a slot, the sequence owns a
 * live state, which each pass updates, and a pass stores copies of it on the way: snapshots, which enter the prefix
 * index when their tokens are indexed, and states in the middle of a draft, to which the sequence goes back when a
 * token of it is refused. All are blocks of the table of the state group: the live state first, then those that the
 * last pass has stored. Engine thread only. Without recurrent layers the functions do nothing.
 */
#include "daemon/cache/cache.h"
#include "daemon/sequence/prompt.h"
#include "daemon/sequence/state-plan.h"

struct seq;

#define LIVE_STATE_SAVES 64         /* states stored by one pass */
#define LIVE_STATE_NONE  UINT32_MAX /* in place of a position: the live state is not valid */

struct live_state {
    uint32_t at;      /* tokens after which the live state is */
    uint32_t message; /* tokens of the prompt before its last message; 0: not known */
    uint32_t rolled;  /* position of the last snapshot that the next one replaces; 0: none */
    uint32_t n_saves;
    struct {
        uint32_t at;
        enum prefix_state_kind kind;
        bool snapshot, rolls, indexed; /* it is for the index; the next one replaces it; the index has it */
    } meaning[LIVE_STATE_SAVES];
    struct state_save saves[LIVE_STATE_SAVES]; /* for the next pass */
};

/* The tokens of the prompt before its last message: those before the last text that a user has written. */
uint32_t live_state_message(const struct prompt *p);

/* @s has its blocks and begins: take a live state and copy @from into it (a block, or KV_NO_BLOCK), the state after @at
 * tokens (LIVE_STATE_NONE: it will come from host memory or disk). 0; 1: there is no room; -ENOMEM. */
int live_state_begin(struct kv_cache *c, struct seq *s, uint32_t from, uint32_t at);

/* The block with the state of @s after its computed tokens; KV_NO_BLOCK: it has none. */
uint32_t live_state_block(const struct kv_cache *c, const struct seq *s);

/* The state and the computed tokens of @s agree, so that it can be computed. */
bool live_state_ready(const struct kv_cache *c, const struct seq *s);

/* Before a pass with the next @n tokens of @s, the last @draft of them proposed: take blocks for what it stores.
 * @shared: as in struct state_plan. False: there is none to go back to, so that the draft must not be computed. */
bool live_state_prepare(struct kv_cache *c, struct seq *s, uint32_t n, uint32_t draft, uint32_t shared);
struct batch_state live_state_entry(const struct kv_cache *c, const struct seq *s);
/* The pass is done; the live state is after @n tokens more. */
void live_state_passed(struct kv_cache *c, struct seq *s, uint32_t n);

/* The tokens of @s up to reuse.indexed are indexed: so are the snapshots at these. */
void live_state_index(struct kv_cache *c, struct seq *s);

/* Go back to the last state at or before @n tokens, of those stored and those in the index, and return its position. */
uint32_t live_state_rewind(struct kv_cache *c, struct seq *s, uint32_t n);

/* After a pass, and what was sampled from it: the live state is that of the computed tokens, which are fewer if no
 * state was stored there; the other blocks are free. 0; -ENOBUFS or -EOPNOTSUPP as seq_truncate_kv. */
int live_state_settle(struct kv_cache *c, struct seq *s);

/* @s gives its blocks back. Its last state stays in the index, if it is at the end of a block there. */
void live_state_end(struct kv_cache *c, struct seq *s);

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Where a sequence stores its recurrent state, and how many states its chain keeps: pure functions of positions. A
 * state can be stored at each end of a whole block (KV_BLOCK tokens).
 *
 * Later prompts often begin with the whole conversation, with all but its last message, or with the same text and
 * another question at its end. So a prompt has a state at its last whole block, at the last one before its last
 * message, and at 2, 8, 32, 128, ... blocks before its end; the state at the end of an answer moves along with the
 * answer. Where states are small, there is one at every few blocks.
 */
#include "daemon/cache/prefix/prefix-state.h"

struct state_plan {
    uint32_t prompt;  /* tokens of the prompt */
    uint32_t message; /* of these, before its last message; 0: not known */
    uint32_t shared;  /* of these, that a sequence has too that waits for them; 0: none does */
    uint32_t stride;  /* blocks between states that are stored anywhere; 0: none are */
};

/* Is the state at @at, a multiple of KV_BLOCK, to be stored for later, and why? */
bool state_wanted(const struct state_plan *p, uint32_t at, enum prefix_state_kind *kind);

/* Is the state after @i of the @n tokens of a draft to be stored, i < n, so that the sequence can go back to it? After
 * other tokens it goes back to the one before. @every: after each, because states are small. */
bool state_row(uint32_t i, bool every);

/* The sizes that decide how many states there are. */
struct state_sizes {
    uint64_t state, block; /* bytes of a state, of a KV block (0: the model has no attention) */
    uint32_t percent;      /* of the bytes of a chain's KV, for its states */
};

/* The stride of a model: 0 unless there is room for a state at every fourth block or more often. */
uint32_t state_stride(const struct state_sizes *s);

/* The states that a chain of @tokens tokens keeps in memory at most. A few in any case: of the last turn, and an
 * earlier one. */
uint32_t state_chain(const struct state_sizes *s, uint32_t tokens);

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The draft model, or the model's MTP layer, as a drafter. Before a step it proposes tokens for all sequences that want
 * some and got none, in one batch: in each round its likeliest next token of each. A round is computed if the tokens
 * that it is expected to add to the step are worth its time and theirs. A sequence has KV of the draft model from its
 * first draft until it loses its slot; its KV is in no prefix index and on no disk. Where that has no room, or the
 * sequence has items that are no tokens, or positions beyond the draft model's context, nothing is proposed. Engine
 * thread only.
 */
#include "daemon/request/core.h"

/* Sums since the start. */
struct model_draft_stats {
    uint64_t passes, tokens;      /* of the draft model */
    uint64_t blocks, blocks_free; /* of its KV */
    double step_ms;               /* expected of a pass for one sequence; 0: not measured */
};

/* Make core->drafter.model for core->model.draft; nothing if that is NULL. 0 or -ENOMEM. */
int model_draft_new(struct core *core);
void model_draft_free(struct core *core); /* no sequence has KV of it */

/* The next step should write the states (WANT_HIDDEN) of the items of @s from the returned one on; UINT32_MAX: none. */
uint32_t model_draft_states_from(const struct core *core, const struct seq *s);
/* It has computed the items from @at on: @rows [n][dim] of the states, of which those of refused tokens do not count.
 */
void model_draft_states(struct core *core, struct seq *s, uint32_t at, uint32_t n, const float *rows);

/* Set the drafts of the sequences that want tokens of the draft model (speculation.most). */
void model_draft_propose(struct core *core);

/* A step has computed @rows of a draft of the model for @s; one of them was accepted. */
void model_draft_computed(const struct core *core, struct seq *s, uint32_t rows);
void model_draft_accepted(const struct core *core, struct seq *s);

/* @s gives back its slot, or ends. */
void model_draft_leave(struct core *core, struct seq *s);

void model_draft_stats(const struct core *core, struct model_draft_stats *out);

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Proposed tokens (speculation). Before each step the drafter proposes tokens for the sequences that decode; the step
 * computes them beside the last known token and samples from each row as it would without them. A proposed token is
 * accepted if it is the one that was sampled. So a drafter changes how many steps an answer takes, and nothing else.
 * Tokens that a constraint forces are proposed without asking the drafter.
 */
#include <stdint.h>

struct core;
struct seq;

struct drafter {
    /* Write to @out [max] ids of tokens that may follow those of @s, in order; returns how many. It may return any ids:
     * from the first one that is not in the vocabulary on they are ignored. NULL: no drafter.
     * A drafter, once set, stays. */
    uint32_t (*propose)(void *ctx, const struct seq *s, int32_t *out, uint32_t max);
    void *ctx;
};

/* Fill in the proposed tokens of all sequences that decode, for the next step. */
void draft_propose(struct core *core);

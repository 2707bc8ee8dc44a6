/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Proposed tokens (speculation). Before each step the drafter proposes tokens for the sequences that decode; the step
 * computes them beside the last known token and samples from each row as it would without them. A proposed token is
 * accepted if it is the one that was sampled. So a drafter changes how many steps an answer takes, and nothing else.
 * Tokens that a constraint forces are proposed without asking the drafter. Of the tokens of a drafter a step computes
 * those that are worth it, see sched_step().
 */
#include "daemon/speculate/past.h"
#include "libcommon/proto.h"

struct core;
struct model_drafter;
struct seq;

struct drafter {
    /* Write to @out [max] ids of tokens that may follow those of @s, in order, and to @chance [max] for each the
     * probability that it and all before it are accepted; returns how many. It may return any ids: from the first one
     * that is not in the vocabulary on they are ignored. NULL: no drafter. A drafter, once set, stays. */
    uint32_t (*propose)(void *ctx, struct seq *s, int32_t *out, float *chance, uint32_t max);
    /* Before each step, for each sequence with a slot, also while its prompt is computed. NULL: not needed. */
    void (*read)(void *ctx, struct seq *s);
    /* A step has computed @rows of a draft of @s, and one of them came true. NULL: not needed. */
    void (*computed)(void *ctx, struct seq *s, uint32_t rows);
    void (*accepted)(void *ctx, struct seq *s);
    void *ctx;
    struct pasts pasts;          /* in which the daemon's own looks */
    struct model_drafter *model; /* proposes after it, for the sequences that have no tokens yet; NULL: none */
    bool always;                 /* what it proposes is computed wherever there is room, whatever it costs */
};

/* Fill in the proposed tokens of all sequences that decode, for the next step. */
void draft_propose(struct core *core);

/* A step has computed @rows of the draft of @s, and one of them was accepted. */
void draft_computed(struct core *core, struct seq *s, uint32_t rows);
void draft_accepted(struct core *core, struct seq *s);

/* @s gives back its slot, or ends. @ended: its answer is kept for drafts of later ones. */
void draft_leave(struct core *core, struct seq *s, bool ended);

/* May tokens be proposed for the answers of this daemon? 0; -EOPNOTSUPP and a message: not with @mode. */
int draft_check(const struct core *core, enum proto_speculate mode);

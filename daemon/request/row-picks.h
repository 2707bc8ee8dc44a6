/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The tokens of a step's rows of logits, picked with the threads of the backend before the answers advance one after
 * the other. Only the time depends on it: advance() picks what has no pick here, and gets the same token.
 */
#include "daemon/request/core.h"
#include "daemon/sample/chain.h"

/* A row from which a token may be picked now. */
struct row_pick {
    struct seq *s;        /* whose next token it is; NULL: none may be picked */
    struct logits logits; /* the row */
    int32_t id;           /* the token; -1, also before row_picks_run(): not picked */
};

struct row_picks {
    struct row_pick *list; /* of the runs of a step; @n of them are this step's */
    size_t n;
    struct sample_scratch **scratch; /* [threads]; NULL before they are needed */
    uint32_t threads;
};

/* Room for the runs of a step. {0} at first. 0 or -ENOMEM. */
int row_picks_init(struct row_picks *x, size_t runs);
void row_picks_fini(struct row_picks *x);

/* Pick the tokens of list[0 … n). Neither the sequences nor the logits may change meanwhile. */
void row_picks_run(struct row_picks *x, const struct core *core);

/* The logits of run @i, with its token if that is picked. */
struct logits row_picks_at(const struct row_picks *x, size_t i);

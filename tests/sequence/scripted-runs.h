/* SPDX-License-Identifier: MIT */
#pragma once
/* A real engine whose prompts get runs of embeddings: in place of some of their tokens, and made of these. The program
 * is linked with --wrap=prepare_request. */
#include "tests/engine/harness.h"

#define FIRST_RUN 5 /* items before the first run */

/* Threads of jobs read it, also for a request that was cancelled while it was prepared. */
struct run_script {
    _Atomic bool runs;     /* prompts get runs */
    _Atomic bool at_end;   /* their last items, too */
    _Atomic bool forget;   /* the runs that a session has are without embeddings */
    _Atomic uint32_t kind; /* enum item_kind of all runs; 0: of both kinds */
};

extern struct run_script script;

/* Back to no runs, and no embeddings are known. */
void script_reset(void);

/* The prompt of the last request, with its runs and embeddings, or NULL. Borrowed, until the next one or script_reset.
 */
const struct prompt *script_prompt(void);

/* harness_run_seeded, with or without runs. */
struct answer *script_ask(struct harness *h, bool runs, uid_t uid, const char *first, const char *second);

/* Answers that outlive their engine. */
struct kept {
    struct answer answers[ANSWERS];
    uint64_t n;
};

void kept_take(struct kept *k, struct harness *h);
/* The answers of @h are the same, which are no longer needed in @k. */
void kept_compare(struct kept *k, struct harness *h);

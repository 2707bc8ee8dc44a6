/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A sequence: one generate request from its arrival to its end. What it says on the way (text, ids) is gathered here;
 * who sends it and when it runs is the engine's business.
 */
#include "daemon/engine/aux.h"
#include "daemon/engine/prepare.h"
#include "daemon/engine/stop.h"

enum seq_state {
    SEQ_NEW,       /* submitted, not looked at */
    SEQ_PREPARING, /* in the aux pool: template, tokens */
    SEQ_WAITING,   /* prepared, no slot or no blocks yet */
    SEQ_RUNNING,
    SEQ_ENDED, /* answered; kept only because an aux job still uses it */
};

struct seq {
    struct engine *engine;
    struct aux_job job;
    enum seq_state state;
    uint64_t conn, arrival;
    uid_t uid;
    struct proto_request req;
    struct {
        bool cancel, gone, paused;
    } want, now;             /* want: set by the loop's thread under the engine's lock; now: the engine's copy */
    struct seq *prev, *next; /* of all, or of the inbox */
    struct seq *next_prepared;

    /* preparation; written by the aux job */
    int prepare_r;
    char *prepare_why; /* its sentence */
    struct prompt prompt;
    struct tokens answer_tokens; /* of a tokenize request */

    /* the session, and the answer so far */
    struct session *session;
    struct kv_table kv; /* n_tokens of prompt.tokens are computed */
    size_t n_prompt, cached;
    uint32_t max_tokens;
    bool max_is_context; /* max_tokens is what the context leaves, less than was asked for */
    struct sample_params params;
    int64_t seed;
    uint32_t generated;
    struct detok detok;
    struct stop stop;
    struct buf answer;  /* what was shown */
    uint64_t last_step; /* of the scheduler */
    uint32_t position;  /* in the queue, as told; 0: not yet */

    /* microseconds of the monotonic clock; 0: not yet, or never */
    uint64_t submitted, deadline, admitted, first_token;
};

/* Takes what @r holds. */
int seq_new(struct seq **out, struct engine *e, uint64_t conn, uid_t uid, struct proto_request *r, uint64_t now);
/* Its session and blocks must have been given back. */
struct seq *seq_free(struct seq *s);

/* Check what the request asks beyond its prompt and fill params, seed, stop. 0 or -EINVAL with a sentence. */
int seq_configure(struct seq *s, const struct loaded *m);

/* The prompt is ready: fix its length and max_tokens. */
void seq_plan(struct seq *s, const struct loaded *m);

/* Most positions it can come to need. */
uint32_t seq_positions(const struct seq *s);

/*
 * A sampled token. Appends to @shown the text that may be shown now (also what was held back, when the answer ends
 * here). 0: goes on; 1: ended, *reason says why; -ENOMEM.
 */
int seq_push(struct seq *s, const struct loaded *m, int32_t id, struct buf *shown, enum proto_reason *reason);

/* Cut short: append to @shown what is still held back. 0 or -ENOMEM. */
int seq_cut(struct seq *s, struct buf *shown);

/*
 * The end of its turn: the session gets the tokens, text, messages and KV (@whole, or cut after some text), or back
 * what it had (cut before any). Gives session and blocks back.
 */
void seq_settle(struct seq *s, struct session_store *store, struct kv_pool *pool, bool whole);

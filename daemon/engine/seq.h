/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A sequence: one generate request from its arrival to its end. What it says on the way (text, ids) is gathered here;
 * who sends it and when it runs is the engine's business.
 */
#include "daemon/jobs/pool.h"
#include "daemon/engine/fim.h"
#include "daemon/engine/harmony.h"
#include "daemon/engine/prepare.h"
#include "daemon/engine/reuse.h"
#include "daemon/engine/stop.h"

struct queue_node;
struct tally;

enum seq_state {
    SEQ_NEW,       /* submitted, not looked at */
    SEQ_PREPARING, /* in the job pool: template, tokens */
    SEQ_WAITING,   /* prepared, no slot or no blocks yet */
    SEQ_FETCHING,  /* has slot and blocks; in the job pool: blocks are read from disk */
    SEQ_RUNNING,
    SEQ_SAVING, /* all is said but done; in the job pool: the session's log */
    SEQ_ENDED,  /* answered; kept only because a job still uses it */
};

/* Work for the job pool whose result the engine's thread takes back. */
struct errand {
    struct job job;
    struct engine *engine;
    void (*back)(struct engine *e, struct errand *x);
    struct errand *next;
};

#define errand_of(j) ((struct errand *)((char *)(j)-offsetof(struct errand, job)))
#define seq_of(x)    ((struct seq *)((char *)(x)-offsetof(struct seq, errand)))

/* Several answers to one prompt: a sequence each, once it is read. */
struct answers {
    uint32_t left; /* that have not ended; who ends as the last one frees this */
};

struct seq {
    struct errand errand;
    bool in_aux;
    enum seq_state state;
    uint64_t conn, arrival;
    uid_t uid;
    struct tally *tally; /* the uid's, held; NULL: not yet */
    struct proto_request req;
    bool cancel_wanted;      /* set by the loop's thread under the engine's lock */
    bool cancel, paused;     /* as the engine's thread has last seen it, and the connection */
    bool lost;               /* there was no memory for a piece of its answer */
    struct queue_node *end_node; /* for its last event */
    bool silent;             /* nobody hears of it any more, or ever did */
    struct seq *prev, *next; /* of all, or of the inbox */

    /* what the last job said */
    int aux_r;
    char *aux_why; /* its sentence */

    /* preparation; written by the job */
    struct prompt prompt;
    struct tokens answer_tokens; /* of a tokenize request */

    /* the session, and the answer so far */
    struct session_page page; /* of a list that was asked for */
    struct session *session, *other; /* other: where a fork or a renamed one goes */
    bool forked;                     /* the session is a copy, and will be none when this turn comes to nothing */
    struct kv_table kv;              /* n_tokens of seq_ids() are computed */
    struct reuse reuse;
    bool public;           /* the administrator's: anybody may find it */
    enum prefix_miss miss; /* why not more of it was found */
    struct fetch *fetch;   /* SEQ_FETCHING */
    struct prefix_id tail; /* of what it had when it lost its slot */
    enum proto_context context;
    uint32_t ctx, keep; /* most positions; of them the first @keep stay when the context is full */
    int32_t *view;      /* [ctx] what is left of the tokens in a context that was shifted; NULL: all are */
    uint32_t n_view;
    uint64_t shifted;       /* tokens that were left out */
    struct proto_event end; /* SEQ_SAVING: what is still to be said */
    size_t n_prompt, cached;
    uint32_t max_tokens;
    bool max_is_context;        /* max_tokens is what the context leaves, less than was asked for */
    struct sample_bias *biases; /* of params; written by the job */
    size_t n_biases;
    struct sample_params params;
    struct sample_state sampling; /* stays when the sequence gives up its place: it goes on as if it had not */
    int64_t seed;
    uint32_t nth;            /* of the answers to its prompt, from 0 */
    struct answers *answers; /* which it shares with them; NULL: it is the only one (yet) */
    uint32_t generated;
    struct detok detok;
    struct stop stop;
    struct fim_lines lines;
    struct harmony harmony;
    const char *channel; /* static: of what was shown last; NULL: nothing was */
    struct buf answer;   /* what was shown of the answer itself */
    uint64_t last_step;  /* of the scheduler */
    uint32_t position;   /* in the queue, as told; 0: not yet */
    uint32_t index;      /* in the plan, when that says so too */
    uint32_t spent;      /* units of service since it has its slot */
    uint64_t since;      /* the plan's clock when it came to wait */
    uint64_t paused_at;  /* us; 0: its reader is not slow */
    uint32_t found;      /* tokens that the cache had when it was last asked, in step looked_step */
    uint64_t looked_step;
    struct seq *with; /* an earlier request with the longest beginning in common; NULL: none */
    uint32_t with_n;  /* tokens of that, whole blocks */

    /* microseconds of the monotonic clock; 0: not yet, or never */
    uint64_t submitted, deadline, admitted, first_token;
    uint64_t parked;    /* when it gave its slot up, while it has none again; 0: it has */
    uint64_t waited[2]; /* without it, before and after the first token */
};

/* Takes what @r holds. */
int seq_new(struct seq **out, uint64_t conn, uid_t uid, struct proto_request *r, uint64_t now);
/* Its session and blocks must have been given back. */
struct seq *seq_free(struct seq *s);

/* It has given its slot up; it has one again, or ends: the time between is not of reading or writing. */
void seq_park(struct seq *s, uint64_t now);
void seq_unpark(struct seq *s, uint64_t now);

/* Check what the request asks beyond its prompt and fill params, seed, stop. 0 or -EINVAL with a sentence. */
int seq_configure(struct seq *s, const struct loaded *m);

/* The prompt is ready: fix its length, max_tokens and what is done when the context is full. 0 or -ENOMEM. */
int seq_plan(struct seq *s, const struct loaded *m);

/* The @nth answer to the prompt of @s, of which nothing is said yet: waits, with the prompt's tokens and no blocks. 0
 * or -ENOMEM. */
int seq_fork(struct seq **out, const struct seq *s, uint32_t nth);

/* One of them ends. True: it was the last, or the only one. */
bool seq_part(struct seq *s);

/* What is to be computed: its tokens, or what the context policy leaves of them. */
static inline const int32_t *seq_ids(const struct seq *s)
{
    return s->view ? s->view : s->prompt.tokens.ids;
}

static inline uint32_t seq_known(const struct seq *s)
{
    return s->view ? s->n_view : (uint32_t)s->prompt.tokens.n;
}

/* Most positions it can come to need, and most blocks it holds at once; @batch: tokens of a step. */
uint32_t seq_positions(const struct seq *s);
uint32_t seq_blocks(const struct seq *s, uint32_t batch);

/* Does it come to more than the context, and goes on? Then only what is in the first so many positions is like any
 * other sequence's. */
bool seq_rotates(const struct seq *s);

/* The tokens that a full context leaves out of @n, when the first @keep stay. */
uint64_t seq_shift(uint64_t n, uint32_t ctx, uint32_t keep);

/*
 * A sampled token. Appends to @shown the text that may be shown now (also what was held back, when the answer ends
 * here). 0: goes on; 1: ended, *reason says why; 2: goes on, but the context was shifted: what is computed belongs to
 * other positions; -ENOMEM.
 */
int seq_push(struct seq *s, const struct loaded *m, int32_t id, struct buf *shown, enum proto_reason *reason);

/* It ends: append to @shown what is still held back. 0 or -ENOMEM. */
int seq_cut(struct seq *s, struct buf *shown);

/* The session gets the turn: tokens, text, messages. 0; -ENOMEM, and it is as it was. */
int seq_commit(struct seq *s);

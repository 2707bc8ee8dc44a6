/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A sequence: the tokens of a prompt and of one answer to it, with their KV blocks. Its request owns it and decides
 * what is said of it and when it ends.
 */
#include "daemon/output/pipeline.h"
#include "daemon/sample/sampling.h"
#include "daemon/sequence/adapted.h"
#include "daemon/sequence/live-state.h"
#include "daemon/sequence/prefix-reuse.h"
#include "daemon/sequence/prompt.h"

#define SEQ_DRAFT_MAX 16 /* tokens proposed for one step */

struct event_node;
struct fetch;
struct guesser;
struct model_draft;
struct past;
struct request;
struct seq;

enum seq_state {
    SEQ_WAITING,  /* has no slot and no blocks: it is being prepared, queued or preempted */
    SEQ_FETCHING, /* has both; a job reads blocks from disk */
    SEQ_ENCODING, /* has both; the embeddings of its next item are not at hand */
    SEQ_RUNNING,
    SEQ_SAVING, /* complete; its request saves the session before it says so */
    SEQ_ENDED,  /* answered; exists only because a job still uses it */
};

/* The sequences of one request, which owns them: one for each answer. */
struct seq_group {
    struct seq **seqs; /* [n]; NULL: not made yet, or ended */
    uint32_t n, left;  /* answers; of those that were begun, how many have not ended */
};

/* The context policy, and the adapter that computes the items. */
struct seq_context {
    enum proto_context policy;
    uint32_t ctx;   /* positions of the context */
    uint32_t keep;  /* the first positions, which stay when the context is full */
    uint32_t batch; /* tokens of a step at most */
    int32_t *view;  /* [ctx] the items that a shifted context has left; NULL: all */
    uint32_t n_view;
    uint32_t view_keep;        /* of them, the first items, which stayed */
    struct run_list view_runs; /* with positions in the view */
    uint64_t shifted;          /* items that were left out */
    struct seq_adapter adapter;
};

/* The sequence as the scheduler sees it. The plan changes it (request/plan*.c). Others set arrival, last_step, spent,
 * redone, reached, position, and, for a copy, what is found of it. */
struct seq_schedule {
    uint64_t arrival;     /* unique */
    uint64_t last_step;   /* in which it took part; 0: none */
    uint64_t since;       /* the scheduler's clock when it began to wait */
    uint64_t paused_at;   /* us; 0: its reader is not slow */
    uint64_t looked_step; /* steps when the cache was last asked for it, and 1; 0: not since it waits */
    uint32_t found;       /* tokens that the cache had then, or has since by the sequence @with */
    uint32_t spent;       /* units of service in its present slot, */
    uint32_t redone;      /* and of these, units for tokens that it had computed before */
    uint32_t reached;     /* tokens that were computed, in any slot, since the last shift */
    bool planned;         /* the plan has it, */
    uint32_t index;       /* there */
    bool queued, ready;   /* it counts for the plan's n_queued, n_ready */
    bool shares;          /* and n_sharing */
    uint32_t position;    /* in the queue, as its peer was told; 0: not yet */
    struct seq *with;     /* an earlier sequence with the longest common prefix; NULL: none */
    uint32_t with_n;      /* tokens of that prefix, whole blocks */

    uint32_t held[KV_GROUPS_MAX]; /* blocks that the plan's held counts for it */
};

/* Monotonic microseconds; 0: not yet, or never. */
struct seq_times {
    uint64_t admitted, first_token;
    uint64_t preempted; /* since when it has no slot again; 0: it has one */
    uint64_t waited[2]; /* preempted, in all: before and after the first token */
};

/* Joules of the CPU packages, without the idle power; request/energy.c's. */
struct seq_energy {
    double prompt, answer;
    uint32_t pending[2]; /* tokens of the prompt, of the answer whose energy is not known yet */
};

/* Proposed tokens; of request/draft.c, lookup-draft.c and model-draft.c. */
struct seq_speculation {
    int32_t draft[SEQ_DRAFT_MAX]; /* [n_draft] tokens proposed to follow, for the next step only */
    float
        chance[SEQ_DRAFT_MAX]; /* [n_draft] the probability that a token and all before it are accepted, if @guessed */
    uint32_t n_draft;
    bool guessed;               /* the drafter has proposed them; else they are forced */
    bool by_model;              /* the draft model has proposed them */
    bool states;                /* it may propose some: an MTP layer needs the model's states */
    uint32_t most;              /* tokens that it may propose; 0: none */
    uint64_t drafted, accepted; /* that were computed, and of these accepted, so far */
    uint64_t drafted_model;     /* part of @drafted: those that the draft model has proposed */
    struct past *past;          /* held, and @guesser owned, while the sequence has a slot; NULL: none */
    struct guesser *guesser;
    struct model_draft *model; /* request/model-draft.c's, while the sequence has a slot; NULL: none */
};

struct seq {
    struct request *request;
    struct seq_group *group;
    uint32_t nth; /* of the group, from 0 */
    uid_t uid;
    struct seq *prev, *next; /* of all that have a prompt */
    enum seq_state state;
    struct prompt prompt;
    size_t n_prompt, cached; /* tokens of the prompt; of these, found in the cache when it was admitted */
    uint32_t max_tokens, generated;
    bool max_is_context; /* the context leaves max_tokens, less than the request asked for */
    struct kv_tables kv; /* n_tokens of seq_items() are computed */
    struct reuse reuse;
    struct live_state live;
    struct seq_context context;
    struct seq_schedule sched;
    struct seq_times times;
    struct seq_energy energy;
    struct sampling sampling;   /* survives a preemption */
    struct sample_bias *biases; /* [n_biases] of the request, for sampling_start */
    size_t n_biases;
    struct output output;
    struct seq_speculation speculation;
    float *held;                 /* logits [hparams.vocab] of its next token, which waits for a mask; NULL: none */
    struct fetch *fetch;         /* SEQ_FETCHING */
    struct event_node *end_node; /* for its last event */
};

/* All sequences that have a prompt, by the time at which they got it. */
struct seq_list {
    struct seq *head, *tail;
};

void seq_list_push(struct seq_list *l, struct seq *s); /* at the end */
void seq_list_remove(struct seq_list *l, struct seq *s);

/* A sequence of @request, the @nth of @group, where it is entered. 0 or -ENOMEM. */
int seq_new(struct seq **out, struct request *request, struct seq_group *group, uint32_t nth);
/* Removed from its group. Its blocks must have been given back. NULL ok, returns NULL. */
struct seq *seq_free(struct seq *s);

/* The @nth answer to the prompt of @s, before any token of it: a copy without blocks, which waits. 0 or -ENOMEM. */
int seq_fork(struct seq **out, const struct seq *s, uint32_t nth);

/* It lost its slot; it has one again, or ends: the time between counts as waiting. */
void seq_preempted(struct seq *s, uint64_t now);
void seq_resumed(struct seq *s, uint64_t now);

/* The items to be computed, and their ids: all, or what the context policy leaves of them. */
static inline const int32_t *seq_ids(const struct seq *s)
{
    return s->context.view ? s->context.view : s->prompt.tokens.ids;
}

static inline uint32_t seq_known(const struct seq *s)
{
    return s->context.view ? s->context.n_view : (uint32_t)s->prompt.tokens.n;
}

static inline struct items seq_items(const struct seq *s)
{
    const struct seq_context *c = &s->context;
    if (!c->view) return prompt_items(&s->prompt);
    return (struct items){.ids = c->view, .n = c->n_view, .runs = c->view_runs.runs, .n_runs = c->view_runs.n};
}

/* The embeddings of position @at, one of a run, and of those that follow in the run; they are at hand. */
const float *seq_embd(const struct seq *s, uint32_t at);
/* The runs that are to be computed, in seq_items(), each with its embeddings. */
struct run_list *seq_runs(struct seq *s);
/* The media of the prompt that a run with @digest belongs to; NULL: none. */
struct prompt_media *seq_media(const struct seq *s, const uint8_t digest[16]);
/* Give @e to all runs with @digest that have no embeddings and are not computed. Takes references of its own. */
void seq_attach_embd(struct seq *s, const uint8_t digest[16], struct embeddings *e);
/* Drop the embeddings of runs that are computed, or that only the prompt has and not the view, and can be had again
 * from the media of the prompt. */
void seq_drop_embd(struct seq *s);
/* -ENODATA and the message for @run, whose embeddings are not at hand. */
int seq_no_embd(const struct item_run *run);
/* Can the model of @h compute all that is not computed? 0; with an error message: -ENODATA: the embeddings of a run are
 * not at hand, and the cache does not have its KV; -EINVAL: they are of another model; -E2BIG: one step has to compute
 * more of a whole run than context.batch items. */
int seq_check_embd(const struct seq *s, const struct hparams *h);
/* The part of it about @r, whose items from position @from on are to be computed: 0 or -E2BIG and the message. */
int seq_check_whole(const struct seq *s, const struct hparams *h, const struct item_run *r, uint32_t from);

/* Positions it may come to need; blocks of group 0 it holds at once at most. */
uint32_t seq_positions(const struct seq *s);
uint32_t seq_blocks(const struct seq *s);
/* The same of any group. */
uint32_t seq_group_blocks(const struct seq *s, const struct kv_group *g);

/*
 * Before a step, or a fetch: let the tables of the groups with a window cover the positions before @end. Blocks before
 * the window of the next token are given back, and are KV_NO_BLOCK in the table. 0; -ENOBUFS or -ENOMEM, and the error
 * message.
 */
int seq_cover(struct kv_cache *c, struct seq *s, uint32_t end);

/* True if it may outgrow the context and rotates then. Only the KV of its first ctx positions can be shared. */
bool seq_rotates(const struct seq *s);

/* Tokens of @n that a shifted context leaves out when the first @keep stay. */
uint64_t seq_shift(uint64_t n, uint32_t ctx, uint32_t keep);
/* Set the view of a context that shifts. A run that the shift would cut is left out whole. 0; -E2BIG with an error
 * message: nothing would be left behind the first items, because a run ends the sequence; -ENOMEM. On an error the view
 * is as before. */
int seq_make_view(struct seq *s);

/*
 * Append a sampled token. Adds to @out the events that may be shown now, and at the end of the answer the text that was
 * held back. 0: the answer continues; 1: it ended, for *reason; 2: it continues, but the context was shifted, so that
 * its KV is of other positions; -ENOMEM.
 */
int seq_push(struct seq *s, int32_t id, struct output_step *out, enum proto_reason *reason);

/* The answer ends: add to @out the events of the text that is held back. 0 or -ENOMEM. */
int seq_cut(struct seq *s, struct output_step *out);

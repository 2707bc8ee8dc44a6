/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The scheduler: pure functions from the state of all requests to who starts, who gives up its slot, and what the next
 * batch is. No clock (now is a field), no locks, no model, no memory of its own (arrays and scratch are the caller's).
 *
 * Fairness. Service is counted in units: a token of prefill is config.prefill_units, a token decoded
 * config.decode_units (in a large batch prefill costs the machine a fraction of what decoding does; in the small ones
 * beside others' answers it costs about as much, see sched_time_prefill_units). Each user has an account of units; the
 * one with less comes first, then class, then arrival. Who comes to wait is raised to the floor, the least account of
 * those who already wait (nobody waits: the largest of all), so that absence earns nothing and using an idle machine
 * costs nothing.
 *
 * Slots. A free one goes to the waiting user with the least account, where each running request counts for what is left
 * of its prompt, at least for what is left of its quantum. A running request gives its slot up to a waiting user
 *   - at once, when its own user has at least two slots more and no smaller account (slots are shared evenly);
 *   - at once, to a first token that lacks at most config.express_tokens of its prompt, when its own user has a slot
 *     more and an account that is not a quantum smaller: such a one leaves the slot after a step or two;
 *   - after a quantum in its slot, when its user's account is at least a quantum larger (service is shared evenly);
 *   - at once, to a higher class of its own user;
 *   - when its reader has been slow for config.yield_ms.
 * While those who wait do not all fit into memory beside those who run, a victim may lose what it has computed. A
 * quantum is longer then by SCHED_WORTH units for each token of that: two long requests would otherwise take turns for
 * ever, and read their prompts anew each time.
 *
 * While a user has a request that waits and could run, no other user's account gets further ahead of its own than
 * sched_lead_max() says.
 *
 * Blocks. Who does not fit may take those of others by the same rules, if that is enough for it. If not, others may
 * pass it until config.patience units were served since it came to wait; then nobody starts before it does.
 */
#include "daemon/sched/step-time.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCHED_NONE  UINT32_MAX
#define SCHED_WORTH 2 /* times what is to be read again */

enum sched_class { SCHED_CLASS_INFILL, SCHED_CLASS_INTERACTIVE, SCHED_CLASS_BATCH, SCHED_CLASSES };

struct sched_config {
    uint32_t parallel;      /* slots */
    uint32_t batch_tokens;  /* most tokens of a step, >= 1 */
    uint32_t prefill_units; /* of a token of prefill, 1 … decode_units */
    uint32_t decode_units;  /* of a decoded token */
    uint32_t quantum;       /* units */
    uint32_t yield_ms;      /* a reader slow for so long loses its slot, when somebody wants it */
    uint64_t patience;      /* units */
    /* A step that decodes: within @step_ratio times one that does nothing else, and @step_ms (but never less than
     * @step_least times it, so that long sequences leave prompts some time). A step that does not decode is
     * as full as it can be. */
    double step_ratio, step_ms, step_least;
    /* While several users have something to compute, nobody's prompt holds up another user's answer: such a step takes
     * at most @shared_ratio times what one token of one answer takes, or @shared_least times what all answers do. */
    double shared_ratio, shared_least;
    /* Then, too, a first token that lacks at most @express_tokens of its prompt does not wait for the others' tokens:
     * every second step may be for such of users with little service alone. */
    uint32_t express_tokens;
    /* Where that leaves less than @prefill_min tokens, prefill gets @prefill_due every @prefill_gap steps. */
    uint32_t prefill_min, prefill_due, prefill_gap;
};

/* Everything but parallel and batch_tokens. */
void sched_config_init(struct sched_config *c, uint32_t parallel, uint32_t batch_tokens);

/* The account of a user. Zero at first; the caller keeps it, also while the user has no request (@waited is false
 * then), and may forget one that has none and whose account is not above the floor. There is to be a decision before
 * each step, whether or not somebody waits. */
struct sched_user {
    uint64_t served; /* units */
    bool waited;     /* it had a request that waited and could run, as of the last decision */
};

/* What is kept from call to call. Zero at first, but for @time (sched_time_init). */
struct sched_book {
    struct sched_time time;
    uint64_t clock;         /* units served in all */
    uint64_t floor;         /* of accounts */
    uint32_t since_prefill; /* steps without the prefill that was wanted */
    bool express;           /* the last step was for first tokens alone */
};

/* A request that waits (new, or preempted: it keeps its tokens) or runs (it has a slot and blocks). */
struct sched_req {
    uint64_t arrival;   /* unique */
    uint64_t last_step; /* when it was last in a batch; 0: never */
    uint64_t since;     /* waits: book.clock when it came to */
    uint64_t paused_ms; /* paused: since when, on the clock of sched_state.now_ms */
    uint32_t user;      /* index */
    uint32_t computed;  /* tokens whose K and V are there; waits: those that the cache has for it (< known) */
    uint32_t known;     /* tokens there are, prompt and answer so far; all computed: nothing to do */
    uint32_t draft;     /* decodes: tokens proposed to follow the known ones, which a step may verify */
    uint32_t spent;     /* runs: units it got since it has its slot */
    /* Waits: what starting it takes of free_blocks: those it has to write into, and those it finds in the cache and
     * nobody holds. Runs: what free_blocks would gain if it were preempted. (Where both mean the same blocks, they may
     * not suffice in the end: then it just does not start, and the next decision sees it as it is.) */
    uint32_t blocks;
    uint32_t grow; /* runs, with overcommit only: blocks that its next step takes */
    /*
     * group: the request (its index; SCHED_NONE: none) with which it has the longest beginning in common that is not
     * computed; of several with the same one they all name. Its own index is allowed. shared: tokens of that beyond
     * @computed, as far as the cache can hand them over. One of them runs, the others wait until it has got so far.
     */
    uint32_t group, shared;
    uint8_t class; /* enum sched_class */
    bool running;
    bool decoding; /* it has sampled a token */
    bool paused;   /* its reader is slow: leave it out */
};

struct sched_state {
    const struct sched_req *reqs; /* [n], in any order */
    uint32_t n;
    struct sched_user *users; /* [n_users] */
    uint32_t n_users;
    uint64_t now_ms;      /* any monotonic clock */
    uint32_t free_blocks; /* that can be had: free, or evictable */
};

/* Bytes of scratch that the functions below need, aligned for uint64_t. */
size_t sched_scratch_size(uint32_t n, uint32_t n_users);

/* --- slots --- */

enum sched_why {
    SCHED_START,   /* it gets a slot and its blocks */
    SCHED_YIELD,   /* it gives up its slot: its reader is slow, */
    SCHED_CLASS,   /* a higher class of the same user waits, */
    SCHED_EVEN,    /* its user has too many slots, */
    SCHED_QUANTUM, /* its user has been served more, */
    SCHED_BLOCKS,  /* or blocks ran out (overcommit) */
};

struct sched_action {
    uint32_t index;
    enum sched_why why;
};

/*
 * Who starts and who is preempted, in the order in which it is to be done (a victim before the one it gives way to),
 * each request at most once; @out [n]; returns how many. Up to 64 start and 4 are moved at once (more for one that
 * needs their blocks): there is a decision before every step. Updates the users' accounts and the book's floor.
 */
uint32_t sched_decide(const struct sched_config *c, struct sched_book *b, const struct sched_state *s, void *scratch,
                      struct sched_action *out);

/* How far an account can get ahead of that of a user who waits and could run: (parallel + 2) quanta and two steps'
 * service; where blocks can be short, the patience and two of the longer quanta of a request of @longest tokens besides
 * (0: they cannot). */
uint64_t sched_lead_max(const struct sched_config *c, uint32_t longest);

/* --- the batch --- */

/* A part of the batch: @n tokens of sequence @index from position computed on. The last @draft of them are proposed
 * ones. */
struct sched_run {
    uint32_t index, n, draft;
    bool logits; /* it has the last token that is known: a token can be sampled, and one more for each of @draft */
};

/*
 * Fill @out [n] with the next batch, each sequence at most once; returns how many. First one token for every one that
 * decodes (the longest waiting, when they are more than fit), then prefill by account, class and arrival, as much as
 * fits the config's limits of tokens and time. Proposed tokens get the room that is left then, in the order of the
 * answers that decode; they count as decoded tokens in *load and in the accounts, accepted or not. What the step was,
 * for sched_done, goes to *load.
 */
uint32_t sched_step(const struct sched_config *c, const struct sched_book *b, const struct sched_state *s,
                    void *scratch, struct sched_run *out, struct sched_load *load);

/* Units of a run of @n tokens of @r. */
uint32_t sched_units(const struct sched_config *c, const struct sched_req *r, uint32_t n);

/* The step was done and took @ms: charge the users, learn. The caller adds sched_units to what each request spent. */
void sched_done(const struct sched_config *c, struct sched_book *b, const struct sched_state *s,
                const struct sched_run *runs, uint32_t n, const struct sched_load *load, double ms);

/* --- the queue --- */

/* pos[n]: 0 for what runs, else its place (from 1) in the order in which all would start if nothing new came. */
void sched_positions(const struct sched_config *c, const struct sched_state *s, void *scratch, uint32_t *pos);

/*
 * Room in a queue of @queue requests (that wait and never ran; @preempted, may be NULL, tells those that did: they do
 * not count) for a new one of @user with @class. SCHED_NONE: there is. n: no, refuse the new one. Else the request to
 * refuse in its place: @user has fewer waiting than an even share of the queue, and this is the newest of the lowest
 * class of the user who has most.
 */
uint32_t sched_refuse(const struct sched_state *s, const bool *preempted, uint32_t queue, uint32_t user,
                      enum sched_class class, void *scratch);

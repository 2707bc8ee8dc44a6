/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The scheduler decides which requests start, which are preempted, and which tokens the next batch computes. It is a
 * set of pure functions of the state of all requests: it has no clock (now_ms is a field), no locks, no model, and no
 * memory of its own (the caller provides the arrays and the scratch).
 *
 * Terms. A request is waiting or running. A running request holds a slot (there are config.parallel) and KV blocks. A
 * preempted request loses its slot and waits again; it keeps its tokens.
 *
 * Batch class. Requests of SCHED_CLASS_BATCH need no short steps, and many of them in one step cost less each. While
 * there are no others, running or waiting, there are config.parallel_batch slots, and up to config.parallel_most where
 * steps are short. When another one comes, those that run stay, but no request starts until fewer than config.parallel
 * run, except in the place of a preempted one; at most config.parallel requests of higher classes run; and while one of
 * them has tokens to compute, a step decodes at most config.parallel requests (see sched_step).
 *
 * Service. Service is counted in units: config.prefill_units for a prefilled token, config.decode_units for a decoded
 * token. In a large batch a prefilled token costs the machine a fraction of a decoded token; in the small batches
 * beside answers of other users it costs about as much (see sched_time_prefill_units). The account of a user is the
 * number of units that the user's requests have received. The user with the smallest account is served first. Requests
 * of one user are ordered by class, then by arrival.
 *
 * Floor. A user who was absent must not return with an old, small account and take the whole machine. So when a user
 * starts to wait, the account is raised to the floor: the smallest account among the users who already wait, or the
 * largest account among the users who run something if no user waits. Service on an otherwise idle machine therefore
 * costs a user nothing later.
 *
 * Decay. Accounts move towards the smallest account of a user with requests: a difference decays to 1/e while
 * config.forget units are served (as in J. Kay, P. Lauder, "A Fair Share Scheduler", 1988). So a user whose answers
 * need little but often may get somewhat more than its share for as long as that lasts, and never waits long for it
 * later: a difference of d units costs the others d / config.forget of the service.
 *
 * Slots. A free slot goes to the waiting user with the smallest account; but first to users who have none and whose
 * next request lacks at most config.express_tokens tokens. In this comparison an account includes the units
 * that the user's running requests are expected to receive: for each the rest of its prompt, at least the rest of
 * its quantum. A waiting request preempts a running request of the same user
 *   - if it has a higher class: at once.
 * It preempts a running request of another user
 *   - if that user has at least two slots more and no smaller account: at once, so that slots are shared evenly;
 *   - if it lacks at most config.express_tokens of its prompt and the running request does not, or is one of several of
 *     that user that do, and that user has more slots and an account that is at most express_lead smaller, or has
 *     two slots while the waiting user has none: at once,
 * because it needs the slot for a step or two. A user's only slot is taken in this way only if no user has two slots
 * more than the waiting one;
 *   - if the account of that user is larger by at least a quantum: after the running request has received a quantum in
 *     its slot, so that service is shared evenly. For its slot alone, this does not take the only answer of a user for
 *     one that has a slot: at one token a step it does not get further ahead, and it would stop and go.
 * Here one slot of a running request that lacks at most config.express_tokens of its prompt does not count as that
 * user's, because it is needed for a step or two. Of the users with too many slots, the one with the most loses one. A
 * running request whose reader has been slow for config.yield_ms may always be preempted.
 *
 * Short memory. If the waiting requests do not all fit into memory beside the running ones, a preempted request may
 * lose its computed tokens. Two long requests could then preempt each other again and again, and prefill their prompts
 * each time. So in this state
 *   - a quantum is longer, by SCHED_RECOMPUTE_FACTOR units for each computed token;
 *   - another user's request, unless the reader is slow, preempts a request only after that has received a quantum for
 *     new tokens, and one unit more for every SCHED_REDONE_SHARE units for tokens that it had computed before.
 * So each slot adds new tokens, at least in proportion to those that are computed again, and all requests end.
 * A request that needs a slot for a first token waits for that only if the running one computes lost tokens again.
 * The second rule also holds, with any memory, for a request that computes lost tokens again: the cache never keeps the
 * tokens that a rotating context computes beyond its length.
 *
 * Blocks. A request that needs more blocks than are free preempts others by the same rules, if their blocks are
 * sufficient. If they are not, other requests may start before it until config.patience units have been served since it
 * began to wait. After that no request starts before it.
 *
 * Bound. While a user has a waiting request that could run, the account of no other user grows beyond that user's
 * account by more than sched_lead_max(), unless that other user has only one answer and the waiting one has a slot.
 *
 * Batch. A step decodes one token of each decoding request and adds prefill, up to limits of tokens and of estimated
 * time (step-time.h). A first token that is nearly ready does not wait for a long batch: see config.express_tokens.
 *
 * Whole stretches. The items of some runs have to be computed together (sched_req.whole): all that is left of the run
 * is in one step, or nothing. If it does not fit into the limits of a step, it waits, and the prompts behind it do not.
 * But if no stretch was due in the last config.prefill_gap steps, one is: of all that are ready, the first by account,
 * class and arrival. It is the first prefill of the step, with no limit of time, and in place of decode tokens if they
 * leave no room. Only an express step still comes before it. So while such stretches are ready, one of them is computed
 * at least every config.prefill_gap + 2 steps, and a step beside answers is too long at most every config.prefill_gap
 * steps. The service is charged as any other.
 */
#include "daemon/sched/step-time.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCHED_NONE             UINT32_MAX
#define SCHED_RECOMPUTE_FACTOR 2 /* units of quantum for each computed token that a preemption may discard */
#define SCHED_REDONE_SHARE     4 /* units for tokens computed again that take one more unit for new ones */

enum sched_class { SCHED_CLASS_INFILL, SCHED_CLASS_INTERACTIVE, SCHED_CLASS_BATCH, SCHED_CLASSES };

/* Of the time of a step: the larger of ratio * (the time to decode one token of one request) and least * D, where D is
 * the estimated time of its decode tokens alone. */
struct sched_limit {
    double ratio, least;
};

struct sched_config {
    uint32_t parallel;       /* number of slots */
    uint32_t parallel_batch; /* the same while all requests are of SCHED_CLASS_BATCH; at least @parallel */
    uint32_t parallel_most;  /* then, as long as a step that decodes a token of each is expected to take at most
                              * step_ms; at least @parallel_batch */
    uint32_t batch_tokens;   /* maximum tokens of a step, at least 1 */
    uint32_t prefill_units;  /* units for each prefilled token, 1 … decode_units */
    uint32_t decode_units;   /* units for each decoded token */
    uint32_t quantum;        /* units */
    uint32_t yield_ms;       /* a request whose reader is slow for this time (ms) may be preempted */
    uint64_t patience;       /* units served until a request that lacks blocks blocks all later starts */
    uint32_t forget;         /* units served until differences of accounts have decayed to 1/e; at least 1 */
    /* Time limit of a step that decodes. D is the estimated time of the step's decode tokens alone. The step may take
     * step_ratio * D (while all requests with tokens to compute are of SCHED_CLASS_BATCH, whose answers nobody reads as
     * they come: without this limit), and at most step_ms milliseconds; but always step_least * D, so that prompts
     * progress beside long sequences. A step without decode has no time limit. */
    double step_ratio;
    double step_ms;
    double step_least;
    /* Stricter limit while requests of several users have tokens to compute, so that a prompt of one user does not
     * delay the answer of another. */
    struct sched_limit shared;
    /* The same, while a user that decodes is behind: its account is smaller by a quantum or more than that of a user
     * that has tokens to prefill. */
    struct sched_limit behind;
    /* Express steps. While several users have tokens to compute, every second step may compute only first tokens: those
     * of requests that lack at most express_tokens tokens of their prompt, of users whose account exceeds the smallest
     * one by at most express_lead units or that decode nothing. Those that lack the fewest come first, as many as take
     * express_ratio * (the time to decode one token of one request), at least one; of one that alone takes longer,
     * express_part tokens. The step also decodes answers of such users, in turn, within this time, at least two tokens.
     */
    uint32_t express_tokens;
    double express_ratio;
    uint32_t express_lead;
    uint32_t express_part;
    /* Short steps. After an express step the next first token is likely to come soon. So the next short_steps other
     * steps compute at most short_tokens tokens, a quarter of them of prompts, the others in turn for each user that
     * decodes, while several users have tokens to compute and a whole batch takes more than short_ratio * (the time to
     * decode one token of one request). Where many tokens take hardly longer than one, no step is short. */
    uint32_t short_steps;
    uint32_t short_tokens;
    double short_ratio;
    /* If the time limit leaves room for less than prefill_min tokens, the step has no prefill. After prefill_gap steps
     * without prefill, one step prefills prefill_due tokens in any case. */
    uint32_t prefill_min; /* tokens */
    uint32_t prefill_due; /* tokens */
    uint32_t prefill_gap; /* steps */
};

/* Set the two arguments, and all other members to their defaults. */
void sched_config_init(struct sched_config *c, uint32_t parallel, uint32_t batch_tokens);

/* The account of a user, zero at first. The caller keeps it, also while the user has no request (then @waited is
 * false). The caller may drop the account of a user without requests if it is not above the floor. sched_decide must
 * run before each step, even if no request waits. */
struct sched_user {
    uint64_t served;  /* units */
    uint64_t decoded; /* book.steps at the last step with a decoded token of the user; 0: none */
    bool waited;      /* at the last decision the user had a waiting request that could run */
};

/* State that the caller keeps from call to call. Zero at first, except @time (sched_time_init). */
struct sched_book {
    struct sched_time time; /* the estimate of step times */
    uint64_t clock;         /* units served to all users, ever */
    uint64_t steps;         /* ever */
    uint64_t floor;         /* units; never decreases */
    uint64_t forgot;        /* @clock when differences of accounts decayed last */
    uint32_t since_prefill; /* steps since the last prefill, while prefill was possible */
    uint64_t due_step;      /* @steps at the last one in which a whole stretch was due */
    uint32_t short_left;    /* steps that are short because of an express step */
    uint32_t untried;       /* steps since the last one with proposed tokens that left out proposed ones */
    bool express;           /* the last step was an express step */
};

/* A waiting request (new or preempted), or a running one. */
struct sched_req {
    uint64_t arrival;    /* order of arrival, unique */
    uint64_t last_step;  /* number of the last step that included the request; 0: none */
    uint64_t since;      /* waiting: book.clock when it began to wait, units */
    uint64_t paused_ms;  /* paused: the time when the pause began, on the clock of sched_state.now_ms */
    uint32_t user;       /* index into sched_state.users */
    uint32_t computed;   /* tokens with K and V; waiting: tokens that the cache has for it (< known) */
    uint32_t known;      /* tokens of the prompt and of the answer so far; equal to computed: nothing to compute */
    uint32_t stretch;    /* running: tokens after @computed that one step may compute; 0: all */
    uint32_t draft;      /* decoding: proposed tokens after the known ones, which a step may verify */
    const float *chance; /* [draft] for each the probability that it and all before it are accepted, descending; NULL:
                          * they are wanted, whatever they cost */
    uint32_t spent;      /* running: units received since it got its slot */
    uint32_t redone;     /* of these, units for tokens that it had computed before, in an earlier slot */
    /* Blocks. Waiting: the part of free_blocks that its start takes, which is new blocks and cached blocks that no
     * request holds. Running: the blocks that its preemption adds to free_blocks. If both count the same blocks, the
     * blocks can be insufficient after all: then the request does not start, and the next decision has exact numbers.
     */
    uint32_t blocks;
    /* Shared prefixes. @group is the index of the request with which this request has the longest common prefix that is
     * not computed yet; SCHED_NONE: none; its own index is allowed. Requests with the same prefix all have the same
     * @group. @shared is the length of that prefix beyond @computed, in tokens that the cache can share. One request of
     * the group runs; the others wait until it has computed the prefix. */
    uint32_t group, shared;
    uint8_t class; /* enum sched_class */
    bool running;
    bool whole;    /* running: the stretch is computed in one step; it has at most batch_tokens */
    bool decoding; /* it has sampled at least one token */
    bool paused;   /* its reader is slow: no step includes it */
    bool busy;     /* running: something else is made for it first, and it computes the rest later: likewise */
};

struct sched_state {
    const struct sched_req *reqs; /* [n], in any order */
    uint32_t n;
    struct sched_user *users; /* [n_users] */
    uint32_t n_users;
    uint64_t now_ms;      /* any monotonic clock */
    uint32_t free_blocks; /* blocks that are free or evictable */
};

/* Bytes of scratch memory that the functions below need. It must be aligned for uint64_t. */
size_t sched_scratch_size(uint32_t n, uint32_t n_users);

/* --- slots --- */

enum sched_reason {
    SCHED_START,   /* start: the request gets a slot and its blocks */
    SCHED_YIELD,   /* preempt: its reader is slow */
    SCHED_CLASS,   /* preempt: a request of a higher class of the same user waits */
    SCHED_EVEN,    /* preempt: its user has at least two slots more than a waiting user */
    SCHED_QUANTUM, /* preempt: its user's account is larger by a quantum or more */
};

struct sched_action {
    uint32_t index; /* into sched_state.reqs */
    enum sched_reason reason;
};

/*
 * Decide which requests start and which are preempted. @out [n] receives the actions in the order of execution: a
 * victim comes before the request that replaces it. Each request appears at most once. Returns the number of actions.
 * One decision starts up to 64 requests and preempts up to 4, or more if one request needs their blocks; the next
 * decision follows before the next step. Updates the users' accounts and book.floor.
 */
uint32_t sched_decide(const struct sched_config *c, struct sched_book *b, const struct sched_state *s, void *scratch,
                      struct sched_action *out);

/* Maximum difference, in units, between any account and that of a user with a waiting request that could run and, if
 * the other user has only one answer, without a slot: (parallel_most + 2) quanta and the service of two steps.
 * @longest: tokens of the longest request if preemptions can discard tokens, which adds two slots that compute all of
 * them again; 0: they cannot. @blocks_short: blocks can be short, which adds the patience and two longer quanta. */
uint64_t sched_lead_max(const struct sched_config *c, uint32_t longest, bool blocks_short);

/* --- the batch --- */

/* A part of the batch: @n tokens of request @index, from its position @computed on. */
struct sched_run {
    uint32_t index, n;
    uint32_t draft; /* proposed tokens after these, to be verified */
    bool logits;    /* the last of these tokens is the last known one: the next token can be sampled, and one more for
                     * each token of @draft */
};

/*
 * Fill @out [n] with the next batch. Each request appears at most once. Returns the number of parts. The batch has one
 * token of every decoding request (if they do not all fit, of those that were not in a batch for the longest time; if
 * more than config.parallel decode and some request with tokens to compute is not of SCHED_CLASS_BATCH, of that many:
 * of each user in turn, the higher class first, then those that were not in a batch for the longest time), then prefill
 * in the order of account, class and arrival, within the limits of tokens and time in @c, then proposed tokens in the
 * room that is left. Those with a known chance are taken, the most likely ones first, as long as the step yields more
 * for its time with them than without: a decoded token counts decode_units, a prefilled one prefill_units; and now and
 * then one, so that what they cost stays known. Proposed tokens count as decoded ones in the accounts, accepted or not.
 * *load describes the step for sched_done.
 */
uint32_t sched_step(const struct sched_config *c, const struct sched_book *b, const struct sched_state *s,
                    void *scratch, struct sched_run *out, struct sched_load *load);

/* Units of service for @n tokens of @r. */
uint32_t sched_units(const struct sched_config *c, const struct sched_req *r, uint32_t n);

/* Call it after a step, which took @ms milliseconds: charges the users' accounts and updates the estimate of step
 * times. The caller adds sched_units to @spent of each request, and to @redone those of tokens computed again. */
void sched_done(const struct sched_config *c, struct sched_book *b, const struct sched_state *s,
                const struct sched_run *runs, uint32_t n, const struct sched_load *load, double ms);

/* --- the queue --- */

/* Set pos[n]: 0 for a running request, else its position in the queue, from 1: the order of starts if no new request
 * arrives. */
void sched_positions(const struct sched_config *c, const struct sched_state *s, void *scratch, uint32_t *pos);

/*
 * Admission of a new request of @user with @class to a queue of at most @queue requests. Preempted requests (@preempted
 * [n], NULL: none) do not count. Returns SCHED_NONE: admit it. s->n: the queue is full, refuse the new request. Else:
 * admit it, and refuse the request with the returned index instead. This is either the newest request of the lowest
 * class of the user with the most waiting requests, if @user has fewer than an even share of the queue; or the newest
 * request of @user itself with a class lower than @class.
 */
uint32_t sched_refuse(const struct sched_state *s, const bool *preempted, uint32_t queue, uint32_t user,
                      enum sched_class class, void *scratch);

/* SPDX-License-Identifier: MIT */
#pragma once
/* Inside the engine: its state, and what its files call of each other. Nobody outside daemon/engine includes this. */
#include "daemon/jobs/pool.h"
#include "daemon/engine/load.h"
#include "daemon/engine/plan.h"
#include "daemon/engine/queue.h"
#include "daemon/engine/rates.h"
#include "daemon/engine/seq.h"
#include "daemon/engine/status-snapshot.h"
#include "daemon/engine/store.h"
#include <pthread.h>
#include <stdatomic.h>

#define ENGINE_JOB_THREADS   4 /* some wait for a disk */
#define ENGINE_PUBLIC_UID    0              /* whom the administrator's prefixes are charged to */
#define ENGINE_SESSION_BYTES (256ull << 20) /* of one uid: ids, text, messages */

struct seq_list {
    struct seq *head, *tail;
    uint32_t n;
};

/* A user, and how many of the requests without their last event are that user's; status requests do not count. */
struct share {
    uid_t uid;
    uint32_t n;
};

/* A connection whose reader is slow. */
struct paused {
    uint64_t conn;
    struct paused *next;
};

/* Sums since start, of one uid. */
struct tally {
    uid_t uid;
    uint32_t live; /* sequences that hold it */
    uint64_t requests, tokens_prompt, tokens_cached, tokens_generated;
    struct sched_user account;
    uint32_t user;         /* its index in the plan, */
    uint64_t gathered;     /* at this gathering of it */
    uint64_t started_turn; /* of the engine, in which so many of its requests began: */
    uint32_t started;
    const char *last_miss; /* why the last prompt was not found whole; static */
    struct tally *next;
};

struct engine {
    struct engine_config config;
    pthread_t thread;
    bool thread_started;
    pthread_t upkeep; /* a thread that ends by itself, for what can wait until the model serves */
    bool upkeep_started;
    atomic_bool upkeep_stop;
    uint64_t started; /* monotonic, us */
    atomic_uint_fast64_t progress;

    pthread_mutex_t own; /* of what is the engine thread's own; it lets go of it only while the backend computes. Taken
                          * before lock */

    /* guarded by lock */
    pthread_mutex_t lock;
    pthread_cond_t wake; /* the engine: something came in */
    bool kick, draining, quit;
    bool shed_wanted;            /* memory is short */
    bool damaged;                /* the weights; ENGINE_FAILED is near */
    bool proved;                 /* upkeep has found them good */
    char *damage;                /* how, or NULL: no memory to say it */
    struct engine_config wanted; /* if configured: of it, configure_take takes what can change */
    bool configured;
    struct {
        char *pending, *failed; /* of the configuration, or NULL */
        const char *model;      /* what became of its file when that was last looked at, or NULL; static */
    } notes;                    /* for status */
    bool looking;               /* the looker has @look */
    struct status_request *asking;  /* status requests that wait, the first in front */
    struct status_job *status_jobs; /* that the job pool has */
    enum engine_state state;
    char *why; /* set once, with ENGINE_FAILED */
    struct queue *events;
    struct seq_list inbox;   /* submitted, not yet taken */
    struct seq_list all;     /* taken, by arrival; changed by the engine thread only */
    struct errand *returned; /* back from the job pool */
    uint32_t load;           /* requests without their last event */
    struct share *shares;    /* [n_shares] of them */
    uint32_t n_shares;
    atomic_uint live_users, live_uid; /* n_shares, and whose the first is: readable without the lock */
    uint32_t detached; /* of these, such that nobody need wait for */
    struct paused *paused;

    /* the engine thread's own */
    struct loaded model;
    struct kv_pool *pool;
    struct session_store *sessions;
    struct prefix *prefix;
    struct store *store;
    bool has_public; /* there are prefixes for all */
    struct prefix_space public_space;
    bool kept_good;           /* what was computed may be kept: the weights are proved */
    struct job_pool *aux, *looker; /* looker: a thread that may be stuck in a disk */
    struct job look;
    struct sampler *sampler;
    uint64_t arrivals, steps, window_end, turns;
    uint64_t computed, sampled; /* tokens, ever */
    struct rates rates;
    struct tally *tallies, forgotten; /* forgotten: sums of those that are there no more */
    uint32_t n_tallies;
    uint32_t running;       /* sequences with a slot */
    atomic_uint errands;    /* that are not back */
    uint64_t flush_until;   /* when quitting: what is not on disk is written until then */
    uint8_t model_here[16]; /* a name of the model in this process, for sessions made before its fingerprint is known */
    uint64_t expire_next;   /* us */
    uint64_t positions_next; /* us: when those who wait are told of their places again */
    bool stopping;          /* draining, as last seen */
    struct plan plan;
    uint64_t preemptions;
    struct step_scratch *scratch;
    bool shed_begin, shedding; /* wanted, as last seen; under way */
    uint32_t shed_left;        /* blocks that go still */
    uint64_t shed_blocks;      /* that went, ever */
};

uint64_t engine_now(void); /* monotonic, us */

/* --- engine.c --- */

void seq_list_push(struct seq_list *l, struct seq *s); /* at its end */

/* Queue an event that is not the last of @s. Takes what *ev holds. A reader that is gone gets nothing. Without memory
 * for a piece of the answer the request fails. */
void engine_emit(struct engine *e, struct seq *s, struct proto_event *ev);
/* The end of @s, after its session was settled: queues @ev as its last one (NULL: none) and frees it; while a job
 * has it, later. The request ends with the last of its answers. */
void engine_finish(struct engine *e, struct seq *s, struct proto_event *ev);

/* A sequence of the engine's own joins those that came in; it does not count as load. */
void engine_add(struct engine *e, struct seq *s);

/* A sequence that the engine's thread has made joins those that were taken, behind @after; the wishes are the same. */
void engine_insert(struct engine *e, struct seq *s, struct seq *after);

/* The engine's thread has more to do, and does not wait. */
void engine_again(struct engine *e);

/* The slot that @s may have is another's. */
void engine_free_slot(struct engine *e, struct seq *s);

/* --- errand.c --- */

/* Have the job pool run @x for @uid, and then, in the engine's thread, @back. */
void errand_send(struct engine *e, struct errand *x, uid_t uid, void (*run)(struct job *),
                 void (*back)(struct engine *, struct errand *));
/* The same for a sequence's own errand: until it is back, the job pool has the sequence. */
void seq_send(struct engine *e, struct seq *s, void (*run)(struct job *),
              void (*back)(struct engine *, struct errand *));
/* Its job waits still, and is taken back: it ends. */
bool seq_recall(struct engine *e, struct seq *s);

/* What came back, the last one first in @list, goes on. */
void errands_back(struct engine *e, struct errand *list);

/* --- requests.c: the life of a request outside the batch --- */

/* From the main thread, with the lock held, before the engine's thread has seen @s: have its prompt prepared while that
 * computes, if nothing but the model is needed for it. */
void requests_prepare_early(struct engine *e, struct seq *s);
/* Begin with new ones, a few of each user; the model is loaded, or failed to. */
void requests_start_new(struct engine *e);
/* It has ended while the job pool had it, and is back. */
void requests_returned(struct engine *e, struct seq *s);
/* The engine ends: no more is said. */
void requests_drop(struct engine *e, struct seq *s);
/* Says s->end and is done with it. */
void requests_end(struct engine *e, struct seq *s);
/* Back in line, with what it has: its blocks stay in the cache. */
void requests_requeue(struct engine *e, struct seq *s);
/* End what was cancelled, whose peer is gone, or what is too late. */
void requests_sweep(struct engine *e, uint64_t now);
uint64_t requests_next_deadline(const struct engine *e); /* us; UINT64_MAX: none */
/* The ways to end: an error (negative, sentence), or done. Both settle the session. */
void requests_fail(struct engine *e, struct seq *s, int r, const char *why);
void requests_done(struct engine *e, struct seq *s, enum proto_reason reason);

/* In a job: what became of it; keeps the sentence. */
void seq_say(struct seq *s, int r);

/* --- turns.c: sessions and what is asked of them --- */

int turns_open(struct engine *e);   /* the store; 0 or -errno with a sentence */
void turns_limit(struct engine *e); /* the limits of sessions in the configuration have changed */
bool turns_is_request(enum proto_type t);
void turns_start(struct engine *e, struct seq *s); /* such a request */
/* In a job: what the log has of a session that is busy for it. 0 or -errno with a sentence. */
int turns_load(struct engine *e, struct session *x);
/* In a job: room on disk for a turn whose prompt is prepared. 0 or -errno with a sentence. */
int turns_claim(struct seq *s);
/* The turn was made before, by a request with the same UUID whose answer was lost: it is said again. */
bool turns_replay(struct engine *e, struct seq *s);
/* For that: the session which the request would make, if there is one of this name already. */
void turns_find_fork(struct engine *e, struct seq *s);
/* The turn goes to the new session that the request names. 0 or -errno with a sentence. */
int turns_fork(struct engine *e, struct seq *s);
/* The turn becomes the session's, and its log is written (SEQ_SAVING) before s->end is said. False: it cannot be. */
bool turns_keep(struct engine *e, struct seq *s);
/* A detached request fails with s->end and nothing to keep: its session says why, and its log is written (SEQ_SAVING).
 * False: there is nothing to note. */
bool turns_note(struct engine *e, struct seq *s);
/* The engine ends before a detached request has: its session gets what there is, and says so. */
void turns_cut(struct engine *e, struct seq *s);
void turns_look(struct engine *e, uint64_t now); /* of each turn: sessions that are too old go */
uint64_t turns_next(const struct engine *e);     /* us when that has something to do; UINT64_MAX: never */
void turns_save_rest(struct engine *e);          /* the last attempt for those that could not be saved */

/* --- public.c --- */

/* Queue the administrator's prefixes to be read, behind all others. */
void public_warm(struct engine *e);

/* --- shed.c --- */

/* Of each turn: if memory is short, some of the blocks that nobody uses go. */
void shed_look(struct engine *e);

/* --- upkeep.c --- */

/* The backend's upkeep, in a thread of its own that takes only what others leave of CPU and disk. Without one there is
 * no upkeep. */
void upkeep_start(struct engine *e);
/* With the lock held: damaged weights make the engine's state ENGINE_FAILED. */
void upkeep_look(struct engine *e);
/* Waits for it: for @usec, until what it does is done; then it is stopped, which is soon. */
void upkeep_end(struct engine *e, uint64_t usec);

/* --- share.c: with the lock held --- */

/* Is there no room at the door for another request of @uid? There is while fewer than @room are without their last
 * event, and for who has less than an even share of that in any case. */
bool share_is_full(const struct engine *e, uid_t uid, uint64_t room);
int share_take(struct engine *e, uid_t uid); /* one more; 0 or -ENOMEM */
void share_give(struct engine *e, uid_t uid);
/* Does nobody but @uid wait for an answer? @ctx: the engine. Any thread, without the lock. */
bool share_is_alone(void *ctx, uid_t uid);

/* --- configure.c --- */

/* With the lock held: what engine_configure has left, becomes the engine's. */
void configure_take(struct engine *e);
/* Looks at the model's file begin and end. 0, or what job_pool_new says. */
int configure_begin(struct engine *e);
void configure_end(struct engine *e);
/* Look whether the model's file is still the one that was loaded, in a thread of its own; then status_flush. The caller
 * has set e->looking. */
void configure_look(struct engine *e);
void configure_fini(struct engine *e);

/* --- admit.c --- */

/* Give slots and blocks to those whose turn it is, and tell the others their place. */
void admit_waiting(struct engine *e);
/* It has its blocks, and what the disk had: the rest is computed. */
void admit_run(struct engine *e, struct seq *s);

/* --- step.c --- */

int step_new(struct engine *e); /* scratch for the loaded model; 0 or -ENOMEM with a sentence */
void step_free(struct engine *e);
bool step_ready(const struct engine *e); /* something can be computed */
void step_run(struct engine *e);

/* --- tally.c --- */

/* That of @uid, which stays until it is dropped. NULL: no memory. */
struct tally *tally_hold(struct engine *e, uid_t uid);
void tally_drop(struct tally *t); /* NULL ok */
void tally_add(struct tally *sum, const struct tally *t);

/* --- status.c --- */

#define STATUS_WAIT_USEC 1000000 /* so long a status request waits for what is found of the model's file */

/* Take a status request, which will be answered soon, whatever the engine does. Any thread. 0; -ENOMEM, and the caller
 * still owns what @req holds. */
int status_submit(struct engine *e, uint64_t conn, uid_t uid, struct proto_request *req);
/* Answer those that need not wait longer, or have the engine's thread do it. Any thread. */
void status_flush(struct engine *e);
/* With the lock held: those that need not wait longer, which are the caller's to answer; NULL: none. */
struct status_request *status_due(struct engine *e);
/* With own held: answer them. */
void status_answer(struct engine *e, struct status_request *list);
uint64_t status_next(const struct engine *e); /* us when some have waited long enough; UINT64_MAX: none wait */
void status_fini(struct engine *e);

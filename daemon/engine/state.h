/* SPDX-License-Identifier: MIT */
#pragma once
/* Inside the engine: its state, and what its files call of each other. Nobody outside daemon/engine includes this. */
#include "daemon/engine/aux.h"
#include "daemon/engine/load.h"
#include "daemon/engine/queue.h"
#include "daemon/engine/sched.h"
#include "daemon/engine/seq.h"
#include <pthread.h>
#include <stdatomic.h>

#define ENGINE_EVENTS        1024 /* the outgoing queue */
#define ENGINE_AUX_THREADS   2
#define ENGINE_SESSION_BYTES (256ull << 20) /* of one uid: ids, text, messages */

struct seq_list {
    struct seq *head, *tail;
    uint32_t n;
};

/* A connection whose reader is slow. */
struct paused {
    uint64_t conn;
    struct paused *next;
};

/* Sums since start, of one uid; those of all uids have uid (uid_t)-1. */
struct tally {
    uid_t uid;
    uint64_t requests, tokens_prompt, tokens_cached, tokens_generated;
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

    /* guarded by lock */
    pthread_mutex_t lock;
    pthread_cond_t wake; /* the engine: something came in */
    pthread_cond_t room; /* the engine: the queue of events was read */
    bool kick, draining, quit;
    bool damaged; /* the weights; ENGINE_FAILED is near */
    char *damage; /* how, or NULL: no memory to say it */
    enum engine_state state;
    char *why; /* set once, with ENGINE_FAILED */
    struct queue *events;
    struct seq_list inbox; /* submitted, not yet taken */
    struct seq_list all;   /* taken, by arrival; changed by the engine thread only */
    struct seq *prepared;  /* back from the aux pool, by next_prepared */
    uint32_t load;         /* requests without their last event */
    struct paused *paused;

    /* the engine thread's own */
    struct loaded model;
    struct kv_pool *pool;
    struct session_store *sessions;
    struct aux *aux;
    struct sampler *sampler;
    float *logits; /* [parallel][shape.vocab] */
    uint64_t arrivals, steps, window_end;
    double step_ms; /* rolling mean */
    struct tally *tallies;
    uint32_t running;
    bool stopping; /* draining, as last seen */
    struct step_scratch *scratch;
};

uint64_t engine_now(void); /* monotonic, us */

/* --- engine.c --- */

/* Queue an event that is not the last of @s; waits for room. Takes what *ev holds. A reader that is gone gets nothing.
 */
void engine_emit(struct engine *e, struct seq *s, struct proto_event *ev);
/* The end of @s, after its session was settled: queues @ev as its last one (NULL: none) and frees it; while an aux job
 * has it, later. */
void engine_finish(struct engine *e, struct seq *s, struct proto_event *ev);
/* Call from the aux thread: @j's sequence is prepared. */
void engine_prepared(struct aux_job *j);

/* --- requests.c: the life of a request outside the batch --- */

void requests_start(struct engine *e, struct seq *s);    /* a new one; the model is loaded, or failed to */
void requests_prepared(struct engine *e, struct seq *s); /* back from the aux pool */
/* End what was cancelled, whose peer is gone, or what is too late. */
void requests_sweep(struct engine *e, uint64_t now);
uint64_t requests_next_deadline(const struct engine *e); /* us; UINT64_MAX: none */
/* The ways to end: an error (negative, sentence), or done. Both settle the session. */
void requests_fail(struct engine *e, struct seq *s, int r, const char *why);
void requests_done(struct engine *e, struct seq *s, enum proto_reason reason);

/* --- upkeep.c --- */

/* The backend's upkeep, in a thread of its own that takes only what others leave of CPU and disk. Without one there is
 * no upkeep. */
void upkeep_start(struct engine *e);
/* With the lock held: damaged weights make the engine's state ENGINE_FAILED. */
void upkeep_look(struct engine *e);
void upkeep_end(struct engine *e); /* waits for it, which is short */

/* --- admit.c --- */

/* Give slots and blocks to those whose turn it is, and tell the others their place. */
void admit_waiting(struct engine *e);

/* --- step.c --- */

int step_new(struct engine *e); /* scratch for the loaded model; 0 or -ENOMEM with a sentence */
void step_free(struct engine *e);
bool step_ready(const struct engine *e); /* something can be computed */
void step_run(struct engine *e);

/* --- status.c --- */

struct tally *tally_of(struct engine *e, uid_t uid); /* NULL: no memory */
/* The answer to a status request of @uid. With @inside, from the engine thread; else from the loop's, with the lock
 * held, while the engine loads. 0 or -ENOMEM. */
int status_json(struct engine *e, uid_t uid, bool inside, struct proto_text *out);

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The state of the engine's thread: the model, its caches, and the requests that it serves. Only @mail is shared with
 * other threads, and @own is released while a step computes, so that a status request can read the rest.
 */
#include "daemon/cache/cache.h"
#include "daemon/cache/vectors/vector-cache.h"
#include "daemon/request/draft.h"
#include "daemon/request/energy.h"
#include "daemon/request/loaded-model.h"
#include "daemon/request/mailbox.h"
#include "daemon/request/plan.h"
#include "daemon/request/rates.h"
#include "daemon/sequence/sequence.h"

struct media_room;
struct session_store;
struct step_scratch;

/* Sums since the start. */
struct core_counts {
    uint64_t steps, computed, sampled; /* steps; tokens computed in them; tokens sampled */
    uint64_t drafted, accepted;        /* proposed tokens computed; those that were sampled, too */
    uint64_t preemptions;
};

/* us: when sessions are next searched for expired ones, and when idle ones are next unloaded. */
struct session_times {
    uint64_t expire, unload;
};

/* us */
struct admission_times {
    uint64_t window_end;     /* until then a first batch waits for more requests */
    uint64_t positions_next; /* when all waiting requests are told their positions again */
};

struct core {
    struct engine_config config; /* as configured last */
    struct mailbox mail;
    pthread_mutex_t own; /* of everything below; taken before mail.lock */

    struct loaded model;
    struct kv_cache cache;
    struct vector_cache vectors; /* of texts */
    struct session_store *sessions;
    struct media_room *media; /* NULL: the model has no encoder */
    uint8_t
        model_here[16]; /* fingerprint_of_identity: names the model in sessions made before its fingerprint is known */
    struct session_times sessions_next;

    struct request_list requests; /* all that were taken, by arrival */
    struct seq_list seqs;         /* those that have a prompt */
    uint64_t arrivals, turns;     /* the last number given, each sequence has one; turns of the engine's thread */
    bool stopping;                /* the mailbox was draining when it was last read */

    struct plan plan;
    uint32_t running; /* sequences with a slot */
    struct admission_times admission;
    struct step_scratch *step;
    struct sample_scratch *sample_scratch;
    struct output_step output;     /* of the token sampled last; kept for its buffers */
    struct drafter drafter;        /* {0}: only forced tokens are proposed */
    atomic_uint_fast64_t progress; /* steps and pieces of loading, for the watchdog */
    struct core_counts counts;
    struct rates rates;
    struct energy energy;
};

/* The engine's thread has more work, and does not wait. */
void core_again(struct core *core);

/* The slot of @s, if it has one, is free. */
void core_free_slot(struct core *core, struct seq *s);

/* The model's fingerprint, or model_here while it is not known. */
void core_model_id(const struct core *core, uint8_t out[16]);
/* Is @id this model's? */
bool core_is_model(const struct core *core, const uint8_t id[16]);

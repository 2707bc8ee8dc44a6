/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The backend's verification of its weights, without which no KV is written to disk. Its thread, of normal priority,
 * only waits for another one, which uses idle CPU and disk time. Where other programs compute, that one may get nothing
 * for seconds or hours. So it takes no lock that others wait for, and the first one does the verification itself when
 * the engine stops. Who is first to know the result uses the packed weights, the other one stops.
 */
#include "daemon/request/core.h"
#include <semaphore.h>

struct background_verify {
    struct core *core;
    pthread_t thread, idle;
    bool started;                /* the first thread, and then @wake is initialized */
    sem_t wake;                  /* the first thread has something to do */
    atomic_bool stop, idle_stop; /* for each thread */
    atomic_int result;           /* of the verification */
    char *idle_why;              /* the damage that the idle thread has found; NULL: no memory for it */
    /* guarded by the mailbox's lock */
    bool verified; /* the weights are good */
    bool damaged;
    bool done; /* the packed weights are written, as far as that is possible */
    char *why; /* the damage; NULL: no memory for it */
};

/* Start the threads; without the first one the weights are never verified, and no KV is kept on disk; without the
 * second one they are verified when the engine stops. The caller holds the lock. */
void background_verify_start(struct background_verify *v, struct core *core);
/* Take over the result: damaged weights make the engine's state ENGINE_FAILED. The caller holds the lock. */
void background_verify_look(struct background_verify *v);

/* The engine stops, and needs the result soon. */
void background_verify_hurry(struct background_verify *v);
/* Wait for the result until @until (monotonic, us), and take it over. */
void background_verify_await(struct background_verify *v, uint64_t until);
/* Wait for the packed weights until @until. Then stop the threads, which takes a moment, or some seconds if other
 * programs leave no CPU time. */
void background_verify_end(struct background_verify *v, uint64_t until);

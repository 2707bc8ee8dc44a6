/* SPDX-License-Identifier: MIT */
#pragma once
/* The backend's verification of its weights, in a thread that uses only idle CPU and disk time. */
#include "daemon/request/core.h"

struct background_verify {
    struct core *core;
    pthread_t thread;
    bool started;
    atomic_bool stop;
    /* guarded by the mailbox's lock */
    bool verified; /* the weights are good */
    bool damaged;
    char *why; /* the damage; NULL: no memory for it */
};

/* Start the thread; without one the weights are never verified, and no KV is kept on disk. The caller holds the lock.
 */
void background_verify_start(struct background_verify *v, struct core *core);
/* Take over the result: damaged weights make the engine's state ENGINE_FAILED. The caller holds the lock. */
void background_verify_look(struct background_verify *v);
/* Wait up to @usec until the verification is done, then stop it, which takes a moment. */
void background_verify_end(struct background_verify *v, uint64_t usec);

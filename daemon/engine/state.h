/* SPDX-License-Identifier: MIT */
#pragma once
/* The whole engine. Only the files of daemon/engine include this. */
#include "daemon/engine/background-verify.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/memory-pressure.h"
#include "daemon/engine/model-watcher.h"
#include "daemon/engine/status.h"
#include "daemon/request/core.h"

/* A configuration that was read again, and the notes that status shows of it. Guarded by the mailbox's lock. */
struct reload {
    struct engine_config wanted;
    bool configured; /* @wanted is to be taken over */
    char *pending;   /* settings that wait for a restart; NULL: none */
    char *failed;    /* why the configuration could not be read; NULL: it could */
};

struct engine {
    struct core core;
    pthread_t thread;
    bool thread_started;
    uint64_t started;     /* monotonic us */
    uint64_t flush_until; /* us: when quitting, until then KV is written to disk */
    struct background_verify verify;
    struct model_watcher watcher;
    struct memory_pressure pressure;
    struct status_queue status;
    struct reload reload;
};

/* Take over the configuration that engine_configure has left. The caller holds the lock. */
void configure_take(struct engine *e);
void configure_fini(struct engine *e);

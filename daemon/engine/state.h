/* SPDX-License-Identifier: MIT */
#pragma once
/* The whole engine. Only the files of daemon/engine include this. */
#include "daemon/engine/background-verify.h"
#include "daemon/engine/model-watcher.h"
#include "daemon/request/config.h"
#include "daemon/request/core.h"

struct status_job;
struct status_request;

/* A configuration that was read again, and the notes that status shows of it. Guarded by the mailbox's lock. */
struct reload {
    struct engine_config wanted;
    bool configured; /* @wanted is to be taken over */
    char *pending;   /* settings that wait for a restart; NULL: none */
    char *failed;    /* why the configuration could not be read; NULL: it could */
};

/* memory-pressure.c */
struct memory_pressure {
    bool wanted;    /* engine_shed was called; guarded by the mailbox's lock */
    bool begin;     /* the same, as the engine's thread has last seen it */
    bool active;    /* under way */
    uint32_t left;  /* blocks still to be evicted */
    uint64_t freed; /* blocks evicted, ever */
};

/* Requests for status. Guarded by the mailbox's lock. */
struct status_queue {
    struct status_request *waiting; /* the first one waits longest */
    struct status_job *jobs;        /* that the job pool has */
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

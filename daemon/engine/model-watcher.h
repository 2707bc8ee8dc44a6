/* SPDX-License-Identifier: MIT */
#pragma once
/* Looks whether the model's file is still the one that was loaded. Its disk may be slow or not answer at all, so that a
 * thread of its own does it, when a status is asked for. */
#include "daemon/request/core.h"

struct model_watcher {
    struct core *core;
    struct job_pool *pool; /* one thread */
    struct job job;
    void (*looked)(void *ctx);
    void *ctx;
    /* guarded by the mailbox's lock */
    bool looking;     /* @job is under way */
    const char *note; /* static: how the file has changed; NULL: it has not */
};

/* @looked(@ctx) is called from the watcher's thread after each look. 0, or as job_pool_new. */
int model_watcher_start(struct model_watcher *w, struct core *core, void (*looked)(void *ctx), void *ctx);
void model_watcher_end(struct model_watcher *w);
/* Begin a look. The caller has set w->looking. */
void model_watcher_look(struct model_watcher *w);

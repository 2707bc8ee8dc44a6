/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The aux pool: a few threads for what is neither socket nor tensor (templates, tokenizing, session logs, KV on disk).
 * Jobs wait in a fair queue (fairq.h): users are served in turn, so that one user's many jobs delay another's first by
 * one job at most. The jobs of one uid run one at a time, in the order in which they came. A uid whose jobs
 * take much CPU time is throttled while others wait for answers, which are computed on the same CPUs.
 */
#include "daemon/engine/fairq.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct aux;

/* Lives in its owner; no field is touched by the owner between aux_push and the call of @done. */
struct aux_job {
    uid_t uid;
    bool uncharged; /* its time is not held against the uid: admission decides about it */
    void (*run)(struct aux_job *j);
    void (*done)(struct aux_job *j); /* from the same thread, right after run; the job may be gone when it returns */
    /* the pool's own */
    struct fairq_entry entry;
    struct aux_user *user;
};

/* @alone: does nobody but @uid wait for an answer? From any thread, with no lock of the caller's; NULL: never.
 * 0, -ENOMEM, or -EAGAIN with a message when no thread can be had. */
int aux_new(struct aux **out, uint32_t threads, bool (*alone)(void *ctx, uid_t uid), void *ctx);
/* Waits for jobs that run; jobs that wait are forgotten (neither run nor done). NULL ok, returns NULL. */
struct aux *aux_free(struct aux *a);

void aux_push(struct aux *a, struct aux_job *j);

/* Take back a job that waits: true, and it is its owner's again, neither run nor done. False: it runs, or it ran. */
bool aux_recall(struct aux *a, struct aux_job *j);

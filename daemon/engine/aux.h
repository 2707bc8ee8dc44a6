/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The aux pool: a few threads for what is neither socket nor tensor (templates, tokenizing). Jobs wait in one line per
 * uid and the lines are served in turn, so that one user's many jobs delay another's first by one job at most; and one
 * uid never has all threads, so that its long jobs do not delay it at all.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct aux;

/* Lives in its owner; no field is touched by the owner between aux_push and the call of @done. */
struct aux_job {
    uid_t uid;
    void (*run)(struct aux_job *j);
    void (*done)(struct aux_job *j); /* from the same thread, right after run; the job may be gone when it returns */
    struct aux_job *next;            /* the pool's own */
    uint64_t round;
};

/* 0, -ENOMEM, or -EAGAIN with a sentence when no thread can be had. */
int aux_new(struct aux **out, uint32_t threads);
/* Waits for jobs that run; jobs that wait are forgotten (neither run nor done). NULL ok, returns NULL. */
struct aux *aux_free(struct aux *a);

void aux_push(struct aux *a, struct aux_job *j);

/* Take back a job that waits: true, and it is its owner's again, neither run nor done. False: it runs, or it ran. */
bool aux_recall(struct aux *a, struct aux_job *j);

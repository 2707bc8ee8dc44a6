/* SPDX-License-Identifier: MIT */
#pragma once
/* Moves jobs from an input through the daemon to an output. Only a window of them is in memory: the next is read when
 * there is room, and there is room when a result is written. */
#include "client/batch/batch-job.h"
#include "client/batch/batch-meter.h"
#include "client/options.h"

struct batch_run;

struct batch_ends {
    void *ctx;
    /* The next job, which the caller owns: waiting, with a request, or failed. 0; 1: no more; 2: not yet, poll
     * @wait_fd; -EINTR; else -errno; sets the error message. */
    int (*take)(void *ctx, struct batch_run *run, struct batch_job **out);
    /* Write the result of @j, which has ended. 0; -EPIPE; -EINTR; else -errno; sets the error message. */
    int (*put)(void *ctx, struct batch_run *run, struct batch_job *j);
    int wait_fd;  /* -1: none */
    bool ordered; /* results are written in the order of the input */
};

struct batch_run {
    const struct options *options;
    struct batch_meter meter; /* the ends set its sizes, and count what they skip */
    bool clear;               /* the output is a terminal too */
};

#define BATCH_JOBS_DEFAULT 256 /* those of a daemon with its default --parallel, and some that wait */

/* Returns the exit status; errors are printed. @hint: printed after an error that ends the batch before its end; NULL:
 * nothing. */
int batch_run(struct batch_run *run, const struct batch_ends *ends, const char *hint);

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Sends jobs over one connection, many at a time, and takes their answers. A refusal of a busy daemon (the queue of the
 * daemon is full, or this user's part of it) is no failure: the job waits, and fewer are sent at a time until answers
 * arrive. When the daemon ends, its jobs wait again, and another daemon gets them.
 */
#include "client/batch/batch-job.h"
#include "client/connection.h"
#include "client/endpoints.h"
#include "client/options.h"

#define BATCH_JOBS_MAX 1024 /* requests of a connection, a limit of hobd */

struct batch_sender {
    const struct options *options;
    struct endpoints endpoints;
    struct connection connection; /* its fd is -1 while there is none */
    struct buf out;               /* not sent yet, from @out_at on */
    size_t out_at;
    struct batch_job *sent[BATCH_JOBS_MAX]; /* by request_id % BATCH_JOBS_MAX; belong to the queue */
    unsigned most, limit;                   /* jobs at a time: wanted; now */
    unsigned n_sent;
    bool met; /* a daemon, at least once */
    struct {
        int64_t until, ms; /* no job is sent before this time of interrupt_now; the last pause */
    } pause;
    struct {
        bool proven;               /* it has sent an event other than an error */
        unsigned lost;             /* connections that ended, since the last answer */
        struct batch_job *suspect; /* got the first error of an unproven connection, which may concern them all */
        int64_t suspect_until;
        int code; /* of that error */
    } daemon;
    uint64_t tokens; /* text events */
};

/* @most: jobs at a time. 0 or negative as endpoints_find. Call batch_sender_fini in any case. */
int batch_sender_init(struct batch_sender *s, const struct options *o, unsigned most);
void batch_sender_fini(struct batch_sender *s);

/* Connect unless connected; starts a daemon if none runs. 0: connected, or a pause before the next attempt; -EINTR;
 * -ENOTCONN: there is no daemon; -ENOEXEC: it cannot load the model; sets the error message; else -errno. */
int batch_sender_connect(struct batch_sender *s);

/* Send the waiting jobs of @q, which have frames, from its front, as many as may be sent now. 0 or -ENOMEM. */
int batch_sender_fill(struct batch_sender *s, const struct batch_queue *q);

/* What to poll for, and until when (of interrupt_now; -1: no limit). */
struct pollfd batch_sender_poll(const struct batch_sender *s);
int64_t batch_sender_deadline(const struct batch_sender *s);

/* Write and read what is possible without waiting. Jobs that have ended get that state. 0; -ENOEXEC: the daemon cannot
 * load its model; -ENOTCONN: it serves no request; sets the error message; else -errno as connection_next. */
int batch_sender_turn(struct batch_sender *s);

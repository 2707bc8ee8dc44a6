/* SPDX-License-Identifier: MIT */
#pragma once
/* One sample of the daemon's status, and how hob status --watch draws it. watch.c has the clock and the terminal. */
#include "libcommon/buf.h"
#include <stddef.h>
#include <stdint.h>

/* Numbers of the daemon's status; NAN: not available to this uid. */
enum figure {
    FIGURE_UPTIME,
    FIGURE_PARALLEL,
    FIGURE_QUEUE,
    FIGURE_RUNNING,
    FIGURE_QUEUED,
    FIGURE_SESSIONS,
    FIGURE_REQUESTS,
    FIGURE_PROMPT,
    FIGURE_CACHED,
    FIGURE_GENERATED,
    FIGURE_STEP_MS, /* average over the last seconds; so are the next three */
    FIGURE_BATCH,   /* sequences in a step */
    FIGURE_READ,    /* prefilled tokens per second */
    FIGURE_SAID,
    FIGURE_KV_BLOCKS,
    FIGURE_KV_FREE,
    FIGURE_KV_UNUSED,
    FIGURE_BLOCKS_MEMORY,
    FIGURE_BLOCKS_DISK,
    FIGURE_BYTES_MEMORY,
    FIGURE_BYTES_DISK,
    FIGURE_HIT_RATE,
    FIGURE_ACCEPTED,
    FIGURE_PASS_TOKENS,
    FIGURE_COUNT,
};

/* Numbers of each uid. */
enum user_figure {
    USER_UID,
    USER_RUNNING,
    USER_QUEUED,
    USER_SESSIONS,
    USER_GENERATED,
    USER_FOUND,
    USER_ASKED,
    USER_MEMORY,
    USER_DISK,
    USER_COUNT,
};

struct watch_user {
    double figures[USER_COUNT];
    char name[20]; /* of a gateway's user, at most its begin; "" */
};

struct watch_sample {
    int64_t at; /* ms, on the clock of all samples */
    double figures[FIGURE_COUNT];
    struct watch_user *users; /* [n_users] */
    size_t n_users;
    struct buf state, model; /* plain text */
    struct buf notes;        /* warnings, one per line */
};

/* Read the daemon's status @json, taken at @at. On failure *s is empty. 0; -EBADMSG; sets the error message;
 * -ENOMEM. */
int watch_read(struct watch_sample *s, const char *json, size_t len, int64_t at);
void watch_fini(struct watch_sample *s);

/* Append lines of at most @columns (at least 1) columns, each with its newline, at most @rows of them (0: unlimited).
 * @before: the previous sample, for rates; NULL: none. 0 or -ENOMEM. */
int watch_draw(struct buf *out, const struct watch_sample *s, const struct watch_sample *before, unsigned columns,
               unsigned rows);

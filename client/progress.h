/* SPDX-License-Identifier: MIT */
#pragma once
/* Shows the progress of a long prefill as one line on a terminal, which is overwritten and finally removed. */
#include "libcommon/proto.h"

enum { PROGRESS_LINE = 112 };

struct progress {
    bool on;        /* standard error is a terminal */
    bool counts;    /* the first prefill event arrived */
    int64_t began;  /* time of that event, ms */
    uint64_t had;   /* tokens done at that event, which cost no time */
    unsigned shown; /* characters of the visible line; 0: none */
};

/* Handle a prefill event at @now (ms, see interrupt_now). Shows the line once the prefill takes over a second. */
void progress_event(struct progress *p, const struct proto_event *e, int64_t now);

/* Remove the line. Call before any other output. */
void progress_clear(struct progress *p);

/* The longest line about @e that fits into less than @width columns, ASCII; @elapsed: ms since @had tokens were done.
 * Empty if the terminal is too narrow. Returns @out. */
const char *progress_line(char out[PROGRESS_LINE], const struct proto_event *e, uint64_t had, int64_t elapsed,
                          unsigned width);

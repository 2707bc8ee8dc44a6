/* SPDX-License-Identifier: MIT */
#pragma once
/* A long prompt on its way, as one line on a terminal that is written over and at last taken away. */
#include "libcommon/proto.h"

enum { PROGRESS_LINE = 112 };

struct progress {
    bool on;        /* there is somebody to see it */
    bool counts;    /* the first prefill event has come */
    int64_t began;  /* its time */
    uint64_t had;   /* its done: what needs no time */
    unsigned shown; /* characters of the line that stands there; 0: none */
};

/* A prefill event at @now (ms, of interrupt_now): shown once it takes over a second. */
void progress_event(struct progress *p, const struct proto_event *e, int64_t now);

/* Before anything else is written. */
void progress_clear(struct progress *p);

/* The longest line about @e that fits in less than @width columns, ASCII; @elapsed ms since @had tokens were done. An
 * empty one: too narrow. Returns @out. */
const char *progress_line(char out[PROGRESS_LINE], const struct proto_event *e, uint64_t had, int64_t elapsed,
                          unsigned width);

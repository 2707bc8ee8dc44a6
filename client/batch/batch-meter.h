/* SPDX-License-Identifier: MIT */
#pragma once
/* The progress of a batch as one line on a terminal, which is overwritten and finally removed. */
#include <stdbool.h>
#include <stdint.h>

enum { BATCH_METER_LINE = 192 };

struct batch_meter {
    bool on;            /* standard error is a terminal */
    unsigned shown;     /* characters of the visible line */
    int64_t began;      /* ms of interrupt_now */
    int64_t last;       /* the last update; 0: never */
    uint64_t had;       /* tokens at that time */
    double rate;        /* smoothed tokens a second; 0: unknown */
    uint64_t answered;  /* by this run */
    uint64_t failed;    /* of these */
    uint64_t skipped;   /* by an earlier one */
    uint64_t bytes;     /* of input, of what is answered */
    uint64_t all_bytes; /* of the input; 0: not known */
    uint64_t skipped_bytes;
};

/* Show the state with @tokens so far, at most a few times a second. */
void batch_meter_show(struct batch_meter *m, uint64_t tokens, int64_t now);

/* Remove the line. Call before any other output on the terminal. */
void batch_meter_clear(struct batch_meter *m);

/* The line, ASCII, of less than @width columns; empty if the terminal is too narrow. Returns @out. */
const char *batch_meter_line(char out[BATCH_METER_LINE], const struct batch_meter *m, int64_t now, unsigned width);

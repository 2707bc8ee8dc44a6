/* SPDX-License-Identifier: MIT */
#pragma once
/* Shows the progress of a transfer as one line on a terminal, which is overwritten and finally removed. */
#include <stdbool.h>
#include <stdint.h>

enum { BAR_LINE = 160 };

struct bar {
    const char *name;
    bool on;        /* standard error is a terminal */
    unsigned shown; /* characters of the visible line */
    int64_t last;   /* ms: time of the last update; 0: never */
    uint64_t had;   /* bytes done at the last update */
    double rate;    /* smoothed bytes per second; 0: unknown */
};

/* Show @done of @total (0: not known) bytes at @now, ms of interrupt_now. Writes a few times a second at most. */
void bar_show(struct bar *b, uint64_t done, uint64_t total, int64_t now);

/* Remove the line. Call before any other output. */
void bar_clear(struct bar *b);

/* The line, ASCII, of less than @width columns; empty if the terminal is too narrow. Returns @out. */
const char *bar_line(char out[BAR_LINE], const char *name, uint64_t done, uint64_t total, double rate, unsigned width);

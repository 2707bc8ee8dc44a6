/* SPDX-License-Identifier: MIT */
#pragma once
/* How far a long transfer is, as one line on a terminal that is written over and at last taken away. */
#include <stdbool.h>
#include <stdint.h>

enum { BAR_LINE = 160 };

struct bar {
    const char *name;
    bool on;        /* there is somebody to see it */
    unsigned shown; /* characters that stand there */
    int64_t last;   /* ms: when it was written; 0: never */
    uint64_t had;   /* bytes then */
    double rate;    /* bytes a second, lately; 0: not known */
};

/* @done of @total (0: not known) bytes at @now, ms of interrupt_now. Writes a few times a second at most. */
void bar_show(struct bar *b, uint64_t done, uint64_t total, int64_t now);

/* Before anything else is written. */
void bar_clear(struct bar *b);

/* The line, of less than @width columns, ASCII; an empty one: too narrow. Returns @out. */
const char *bar_line(char out[BAR_LINE], const char *name, uint64_t done, uint64_t total, double rate, unsigned width);

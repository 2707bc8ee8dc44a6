/* SPDX-License-Identifier: MIT */
#pragma once
/* Work of the last seconds: sums per second, in a ring. Pure: the time is an argument. */
#include <stdint.h>

#define RATES_SECONDS 10 /* length of the window, including the current second */

struct rates_step {
    uint64_t usec;              /* that it took */
    uint32_t sequences;         /* in its batch */
    uint32_t read;              /* tokens of prompts computed */
    uint32_t written;           /* tokens sampled */
    uint32_t drafted, accepted; /* proposed tokens computed; of @written, those that were proposed */
};

/* Zero at first. */
struct rates {
    uint64_t begun; /* us: the first step's end */
    struct {
        uint64_t second, usec, steps, sequences, read, written, drafted, accepted;
    } slot[RATES_SECONDS];
};

struct rates_sum {
    uint64_t steps;
    double seconds;        /* that it is about: from the first step on, and at least one */
    double step_ms, batch; /* of a step, on average; 0: there was none */
    double read, written;  /* tokens a second */
    uint64_t drafted, accepted;
};

/* @now: us of any clock that does not go back. */
void rates_add(struct rates *r, uint64_t now, const struct rates_step *step);
void rates_sum(const struct rates *r, uint64_t now, struct rates_sum *out);

/* SPDX-License-Identifier: MIT */
#pragma once
/* New connections take at most a fifth of the main thread's time. Otherwise peers that only connect would delay
 * answers. */
#include <stdint.h>

/* {0} at the start. */
struct accept_pace {
    uint64_t debt; /* microseconds that accept took, less a fifth of the time that passed, at @at */
    uint64_t at;
};

/* Count @usec that accept took. @now_usec: a monotonic clock. Returns for how many microseconds the caller has to
 * accept nothing, or 0. */
uint64_t accept_pace_charge(struct accept_pace *p, uint64_t usec, uint64_t now_usec);

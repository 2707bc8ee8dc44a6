/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * How long a step takes: fixed + decode tokens + prefill tokens + attention of either, each a coefficient that is never
 * negative. Learned from measured steps by a Kalman filter (R. E. Kalman, "A New Approach to Linear Filtering and
 * Prediction Problems", 1960): measurements err by SCHED_TIME_NOISE of what is expected, a coefficient drifts by
 * SCHED_TIME_DRIFT of itself a step and is never less certain than within its own size, so that one about which steps
 * tell nothing stays as it was, and steps that are all alike do not play one against another. A measurement counts as
 * at most twice and at least half of what was expected, so that a bad one changes little; SCHED_TIME_BELIEVE such in a
 * row, all too slow or all too fast, and the machine has changed: everything is scaled by the mildest of them.
 */
#include <stdbool.h>
#include <stdint.h>

#define SCHED_TIME_NOISE   0.15
#define SCHED_TIME_DRIFT   0.01
#define SCHED_TIME_BELIEVE 4

enum {
    SCHED_TIME_FIXED,
    SCHED_TIME_DECODE,
    SCHED_TIME_PREFILL,
    SCHED_TIME_DECODE_KV,
    SCHED_TIME_PREFILL_KV,
    SCHED_TIME_TERMS
};

/* What a step does. */
struct sched_load {
    uint32_t decode, prefill;     /* tokens */
    double decode_kv, prefill_kv; /* thousands of (token, position before it) pairs */
    bool express;                 /* nothing but first tokens that were nearly there */
    bool no_prefill;              /* there was a prompt to read, and no room for any of it */
};

struct sched_time {
    double ms[SCHED_TIME_TERMS];    /* of the step, a token, a token, a thousand pairs, a thousand pairs */
    double usual[SCHED_TIME_TERMS]; /* what they would be, had the machine the ratios of a usual one */
    double p[SCHED_TIME_TERMS][SCHED_TIME_TERMS]; /* covariance of their errors */
    uint32_t samples;
    double off;   /* the mildest ratio of measured and expected of those in a row that were far off */
    uint32_t row; /* how many they are */
};

/* Starts from the ratios of a usual CPU; the first step measured sets the scale. */
void sched_time_init(struct sched_time *t);

/* Milliseconds to expect. */
double sched_time_of(const struct sched_time *t, const struct sched_load *x);

/* Tokens of prefill from position @pos on that take at most @ms; at most @max. */
uint32_t sched_time_prefill(const struct sched_time *t, uint32_t pos, double ms, uint32_t max);

/* What a token of prefill costs where a decoded one costs @decode_units: 1 … @decode_units. */
uint32_t sched_time_prefill_units(const struct sched_time *t, uint32_t decode_units);

/* @x took @ms; what is not a positive number is ignored. */
void sched_time_learn(struct sched_time *t, const struct sched_load *x, double ms);

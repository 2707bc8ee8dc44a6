/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * An estimate of the time of a step: a fixed part, plus one coefficient each for decode tokens, prefill tokens, the
 * attention of both, and the rows of proposed tokens. The attention of such rows counts as that of prefill, because all
 * rows of a sequence read its KV together. No coefficient is negative. The coefficients are learned from measured steps
 * by a Kalman filter (R. E. Kalman, "A New Approach to Linear Filtering and Prediction Problems", 1960):
 *   - the error of a measurement is SCHED_TIME_NOISE of the expected time;
 *   - in each step a coefficient drifts by SCHED_TIME_DRIFT of its value;
 *   - the uncertainty of a coefficient never exceeds its value. So a coefficient that recent steps do not depend on
 *     stays unchanged, and equal steps do not move one coefficient against another;
 *   - a measurement counts as at least half and at most twice the expected time, so that an outlier has little effect;
 *   - after SCHED_TIME_BELIEVE outliers in a row in the same direction, the machine has changed: all coefficients are
 *     scaled by the smallest of these deviations.
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
    SCHED_TIME_DRAFT,
    SCHED_TIME_TERMS
};

#define SCHED_TIME_PLAIN SCHED_TIME_DRAFT /* the terms of steps without proposed tokens, the first ones */

/* The work of a step. */
struct sched_load {
    uint32_t decode, prefill;     /* tokens */
    uint32_t draft;               /* proposed tokens beside them */
    double decode_kv, prefill_kv; /* thousands of (token, position before it) pairs */
    bool express;                 /* an express step (scheduler.h) */
    bool no_prefill;              /* a request needed prefill, but none fitted */
    bool untried;                 /* tokens were proposed, and none of them is in the step */
    bool due;                     /* a whole stretch was due, and is in the step whatever the limits (scheduler.h) */
};

struct sched_time {
    double
        ms[SCHED_TIME_TERMS]; /* milliseconds for a step, a token, a token, a thousand pairs, a thousand pairs, a row */
    double usual[SCHED_TIME_TERMS];               /* the same, if the machine had the ratios of a typical CPU */
    double p[SCHED_TIME_TERMS][SCHED_TIME_TERMS]; /* covariance of the errors of @ms */
    uint32_t samples;                             /* measured steps */
    double off;   /* ratio of measured to expected time: the one nearest to 1 among the current outliers */
    uint32_t row; /* number of outliers in a row */
};

/* Start with the ratios of a typical CPU; the first measured step sets the scale. */
void sched_time_init(struct sched_time *t);

/* The expected milliseconds of a step. */
double sched_time_of(const struct sched_time *t, const struct sched_load *x);

/* The number of tokens, at most @max, that can be prefilled from position @pos on in @ms milliseconds. */
uint32_t sched_time_prefill(const struct sched_time *t, uint32_t pos, double ms, uint32_t max);

/* The units of a prefilled token, 1 … @decode_units, if a decoded token has @decode_units: the ratio of their expected
 * times, rounded. */
uint32_t sched_time_prefill_units(const struct sched_time *t, uint32_t decode_units);

/* Learn that @x took @ms milliseconds. Ignored unless @ms is a positive number. */
void sched_time_learn(struct sched_time *t, const struct sched_load *x, double ms);

/* SPDX-License-Identifier: MIT */
#include "daemon/sched/step-time.h"
#include <math.h>
#include <stdbool.h>

/* A coefficient is at least 1/MIN_RATIO of the typical one, so that noise cannot make work look free. */
#define MIN_RATIO 32

void sched_time_init(struct sched_time *t)
{
    *t = (struct sched_time){.ms = {8, 1, 1.5, 1, 0.4, 1.5}};
}

static void terms(double f[SCHED_TIME_TERMS], const struct sched_load *x)
{
    f[SCHED_TIME_FIXED] = 1;
    f[SCHED_TIME_DECODE] = x->decode;
    f[SCHED_TIME_PREFILL] = x->prefill;
    f[SCHED_TIME_DECODE_KV] = x->decode_kv;
    f[SCHED_TIME_PREFILL_KV] = x->prefill_kv;
    f[SCHED_TIME_DRAFT] = x->draft;
}

double sched_time_of(const struct sched_time *t, const struct sched_load *x)
{
    double f[SCHED_TIME_TERMS], ms = 0;
    terms(f, x);
    for (int i = 0; i < SCHED_TIME_TERMS; i++) ms += f[i] * t->ms[i];
    return ms;
}

uint32_t sched_time_prefill(const struct sched_time *t, uint32_t pos, double ms, uint32_t max)
{
    /* n tokens from pos on: n linear + n^2/2 kv */
    double kv = t->ms[SCHED_TIME_PREFILL_KV] / 1000, linear = t->ms[SCHED_TIME_PREFILL] + kv * pos;
    if (ms <= 0) return 0;
    double n = 2 * ms / (linear + sqrt(linear * linear + 2 * kv * ms));
    return n < max ? (uint32_t)n : max;
}

uint32_t sched_time_prefill_units(const struct sched_time *t, uint32_t decode_units)
{
    double units = decode_units * t->ms[SCHED_TIME_PREFILL] / t->ms[SCHED_TIME_DECODE];
    if (!(units > 1)) return 1;
    return units < decode_units ? (uint32_t)(units + 0.5) : decode_units;
}

static double size(const struct sched_time *t, int i)
{
    return fmax(t->ms[i], t->usual[i]);
}

/* Scale all coefficients, and reset their uncertainty. */
static void rescale(struct sched_time *t, double by)
{
    for (int i = 0; i < SCHED_TIME_TERMS; i++) {
        t->ms[i] *= by;
        t->usual[i] = t->samples > 1 ? t->usual[i] * by : t->ms[i];
        for (int k = 0; k < SCHED_TIME_TERMS; k++) t->p[i][k] = i == k ? size(t, i) * size(t, i) : 0;
    }
    t->row = 0;
}

/* Add the drift before the next measurement. The uncertainty of a coefficient never exceeds its value. */
static void drift(struct sched_time *t)
{
    for (int i = 0; i < SCHED_TIME_TERMS; i++) {
        double one = size(t, i), by = SCHED_TIME_DRIFT * one;
        t->p[i][i] += by * by;
        if (t->p[i][i] <= one * one) continue;
        double shrink = one / sqrt(t->p[i][i]);
        for (int k = 0; k < SCHED_TIME_TERMS; k++) t->p[i][k] *= shrink, t->p[k][i] *= shrink;
    }
}

/* Update all coefficients for a step that took @off ms more than expected. */
static void update(struct sched_time *t, const double f[SCHED_TIME_TERMS], double expected, double off)
{
    double pf[SCHED_TIME_TERMS], noise = SCHED_TIME_NOISE * expected, all = noise * noise;
    for (int i = 0; i < SCHED_TIME_TERMS; i++) {
        pf[i] = 0;
        for (int k = 0; k < SCHED_TIME_TERMS; k++) pf[i] += t->p[i][k] * f[k];
        all += f[i] * pf[i];
    }
    off = fmin(fmax(off, -2 * sqrt(all)), 2 * sqrt(all));
    for (int i = 0; i < SCHED_TIME_TERMS; i++) {
        t->ms[i] = fmax(t->ms[i] + pf[i] / all * off, t->usual[i] / MIN_RATIO);
        for (int k = 0; k < SCHED_TIME_TERMS; k++) t->p[i][k] -= pf[i] * pf[k] / all;
    }
}

/* Note that a step took @ratio times the expected time. True: enough outliers in a row show that the machine has
 * changed. */
static bool has_changed(struct sched_time *t, double ratio)
{
    if (ratio >= 0.5 && ratio <= 2) {
        t->row = 0;
        return false;
    }
    bool same = t->row > 0 && (ratio > 1) == (t->off > 1);
    t->row = same ? t->row + 1 : 1;
    if (!same || fabs(log(ratio)) < fabs(log(t->off))) t->off = ratio;
    return t->row >= SCHED_TIME_BELIEVE;
}

void sched_time_learn(struct sched_time *t, const struct sched_load *x, double ms)
{
    double f[SCHED_TIME_TERMS], expected = sched_time_of(t, x);
    if (!(ms > 0) || !isfinite(ms) || !(expected > 0)) return;
    if (t->samples++ == 0 || has_changed(t, ms / expected)) {
        rescale(t, t->row ? t->off : ms / expected);
        expected = sched_time_of(t, x);
    }
    terms(f, x);
    drift(t);
    update(t, f, expected, fmin(fmax(ms, expected / 2), expected * 2) - expected);
}

/* SPDX-License-Identifier: MIT */
#include "daemon/engine/sched-time.h"
#include <math.h>
#include <stdbool.h>

#define SWEEPS       8
#define PREFILL_GAIN 256 /* a token of prefill costs at least this part of a step that decodes one */
/* A term that was less than about 1% of the time of the steps kept tells nothing about its coefficient. */
#define TOO_LITTLE 1e-4

void sched_time_init(struct sched_time *t)
{
    *t = (struct sched_time){.ms = {8, 1, 1, 0.5, 0.1}};
}

static void terms(double f[SCHED_TIME_TERMS], const struct sched_load *x)
{
    f[SCHED_TIME_FIXED] = 1;
    f[SCHED_TIME_DECODE] = x->decode;
    f[SCHED_TIME_PREFILL] = x->prefill;
    f[SCHED_TIME_DECODE_KV] = x->decode_kv;
    f[SCHED_TIME_PREFILL_KV] = x->prefill_kv;
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
    if (linear * max + kv * max * max / 2 <= ms) return max;
    double n = 2 * ms / (linear + sqrt(linear * linear + 2 * kv * ms));
    return n < max ? (uint32_t)n : max;
}

/* What was learned in another scale is forgotten. */
static void rescale(struct sched_time *t, double by)
{
    for (int i = 0; i < SCHED_TIME_TERMS; i++) {
        t->ms[i] *= by;
        t->b[i] = 0;
        for (int k = 0; k < SCHED_TIME_TERMS; k++) t->a[i][k] = 0;
    }
    t->row = 0;
}

/* One more step took @ratio times what was expected: do the last ones agree that all is different now? */
static bool far_off(struct sched_time *t, double ratio)
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
    if (t->samples++ == 0 || far_off(t, ms / expected)) {
        rescale(t, t->row ? t->off : ms / expected);
        expected = sched_time_of(t, x);
    }
    ms = fmin(fmax(ms, expected / 2), expected * 2);
    terms(f, x);
    for (int i = 0; i < SCHED_TIME_TERMS; i++) {
        f[i] /= expected;
        for (int k = 0; k <= i; k++) t->a[i][k] = t->a[k][i] = SCHED_TIME_KEEP * t->a[i][k] + f[i] * f[k];
        t->b[i] = SCHED_TIME_KEEP * t->b[i] + f[i] * ms / expected;
    }
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (int i = 0; i < SCHED_TIME_TERMS; i++) {
            double rest = t->b[i];
            for (int k = 0; k < SCHED_TIME_TERMS; k++)
                if (k != i) rest -= t->a[i][k] * t->ms[k];
            if (t->a[i][i] * t->ms[i] * t->ms[i] < TOO_LITTLE && t->a[i][i] * expected * expected < TOO_LITTLE)
                continue;
            t->ms[i] = rest > 0 ? rest / t->a[i][i] : 0;
        }
    /* Noise must not make prefill look free. */
    double least = (t->ms[SCHED_TIME_FIXED] + t->ms[SCHED_TIME_DECODE]) / PREFILL_GAIN;
    if (t->ms[SCHED_TIME_PREFILL] < least) t->ms[SCHED_TIME_PREFILL] = least;
}

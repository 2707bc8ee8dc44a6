/* SPDX-License-Identifier: MIT */
#pragma once
/* Statistics. */
#include <stddef.h>
#include <stdint.h>

/* Counts of values in classes of half a percent, from 1e-3 to 1e9, with one class for values beyond. {0} is empty. */
#define STATS_CLASSES 5541

struct stats {
    uint64_t n;
    double sum, most;
    uint64_t count[STATS_CLASSES + 1]; /* [0]: below 1e-3 */
};

void stats_add(struct stats *s, double v);
/* The quantile at @share, up to 0.5% more, never above the largest value; 0 without values. */
double stats_quantile(const struct stats *s, double share);
double stats_mean(const struct stats *s);

/* Jain's fairness index (Jain, Chiu, Hawe: DEC-TR-301, 1984): (sum x)^2 / (n sum x^2). 1: all equal; 1/n: one has
 * everything. 1 without values. */
double stats_jain(const double *x, size_t n);

/* SPDX-License-Identifier: MIT */
#pragma once
#include "daemon/simulate/sim.h"
#include <stdio.h>

#define SIMULATE_PLOT_MAX 8 /* results */

struct simulate_plot {
    const struct sim_result *results; /* [n], n <= SIMULATE_PLOT_MAX */
    const char *const *names;         /* [n] */
    int n;
};

/* Write an SVG picture of a struct simulate_plot: for the time until a request starts, until its first token, and
 * between two tokens, the share of values up to each time, one line for each of the results. The caller checks the
 * stream for errors. */
void simulate_plot_draw(FILE *f, const void *plot);

/* SPDX-License-Identifier: MIT */
#pragma once
#include "daemon/simulate/sim.h"
#include <stdio.h>

/* Writes an SVG picture: for the time until a request starts, until its first token, and between two tokens, the share
 * of values up to each time, one line for each of results [n] (names [n]). The caller checks the stream for errors. */
void plot_write(FILE *f, const struct sim_result *results, const char *const *names, int n);

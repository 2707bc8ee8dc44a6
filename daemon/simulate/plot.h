/* SPDX-License-Identifier: MIT */
#pragma once
#include "daemon/simulate/sim.h"
#include <stdio.h>

/* An SVG picture: of the time until a request starts, until its first token, and between two tokens, the share of
 * values that are not larger, one line for each of results [n] (names [n]). The stream's errors are the caller's. */
void plot_write(FILE *f, const struct sim_result *results, const char *const *names, int n);

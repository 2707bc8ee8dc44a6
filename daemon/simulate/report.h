/* SPDX-License-Identifier: MIT */
#pragma once
#include "daemon/simulate/sim.h"
#include <jansson.h>

extern const char *const sim_policy_names[SIM_POLICIES];

/* Prints a table with one column for each of results [n]. */
void report_print(const struct trace *t, const struct sim_config *c, const struct sim_result *results, int n,
                  const enum sim_policy *policies);
/* The same as a JSON object; NULL: no memory. */
json_t *report_json(const struct trace *t, const struct sim_config *c, const struct sim_result *results, int n,
                    const enum sim_policy *policies);

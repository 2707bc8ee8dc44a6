/* SPDX-License-Identifier: MIT */
#pragma once
/* One step: a batch over all running sequences, then a token for each row of logits. */
#include <stdbool.h>

struct core;

int step_new(struct core *core); /* scratch memory for the loaded model; 0, or -ENOMEM and an error message */
void step_free(struct core *core);
bool step_ready(const struct core *core); /* some sequence can be computed */
void step_run(struct core *core);

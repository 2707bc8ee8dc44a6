/* SPDX-License-Identifier: MIT */
#pragma once
/* The recurrent states of a step. Without recurrent layers both functions do nothing. */
#include <stdint.h>

struct core;

/* Before the step of the plan's @runs: what each of them stores. Proposed tokens that cannot be taken back are left out
 * of the runs. */
void step_states_prepare(struct core *core, uint32_t runs);

/* After it: the state of each running sequence is that of its computed tokens. One without blocks to go back is
 * preempted. */
void step_states_settle(struct core *core);

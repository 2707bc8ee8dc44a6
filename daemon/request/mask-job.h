/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Masks of constrained answers and of calls, computed by jobs while a step computes, so that a slow one delays no other
 * answer. An answer whose constraint is still busy MASK_WAIT_USEC after the step sits out: its logits are kept, and it
 * takes its token when the job is back. A sequence that runs alone computes its mask itself, and so does one whose
 * constraint has never taken MASK_SLOW_USEC for a token: a job costs about as much as most masks.
 */
#include "daemon/request/core.h"

#define MASK_WAIT_USEC 1000
#define MASK_SLOW_USEC 500

/* Before the step computes: begin the masks of its first @n runs. */
void mask_jobs_begin(struct core *core, uint32_t n);

/* After it: may @s sample now? False: @row [hparams.vocab], its logits, is kept, and @s advances later. @until: when
 * the wait for masks ends; us. */
bool mask_job_ready(struct core *core, struct seq *s, const float *row, uint64_t until);

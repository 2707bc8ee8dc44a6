/* SPDX-License-Identifier: MIT */
#pragma once
/* Admission: which sequences get a slot and blocks, which are preempted, and which requests are refused. */

struct core;

/* Do what the scheduler decides, and tell waiting requests their positions. Once in each turn of the engine. */
void admit_waiting(struct core *core);

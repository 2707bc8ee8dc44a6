/* SPDX-License-Identifier: MIT */
#pragma once
/* Memory pressure of the system: evicts unused KV blocks, returns their memory, and unloads idle sessions. */
struct core;
struct memory_pressure;

/* Call in each turn of the engine: does a bounded part of the work. */
void memory_pressure_turn(struct memory_pressure *p, struct core *core);

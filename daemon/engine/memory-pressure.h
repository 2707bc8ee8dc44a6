/* SPDX-License-Identifier: MIT */
#pragma once
/* When the system is short of memory: evict cold KV blocks, return their memory, and unload idle sessions. */
struct core;
struct memory_pressure;

/* In each turn of the engine: a bounded part of the work. */
void memory_pressure_turn(struct memory_pressure *p, struct core *core);

/* SPDX-License-Identifier: MIT */
#pragma once
/* When the system is short of memory: evict cold KV blocks, return their memory, and unload idle sessions. */
#include "daemon/request/core.h"

struct memory_pressure {
    bool wanted;    /* engine_shed was called; guarded by the mailbox's lock */
    bool begin;     /* the same, as the engine's thread has last seen it */
    bool active;    /* under way */
    uint32_t left;  /* blocks still to be evicted */
    uint64_t freed; /* blocks evicted, ever */
};

/* In each turn of the engine: a bounded part of the work. */
void memory_pressure_turn(struct memory_pressure *p, struct core *core);

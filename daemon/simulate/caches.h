/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What different ways to evict would do to a trace: requests one after the other, no scheduler, no held blocks; a block
 * is one hash id. All evict leaves only (a block whose successors are gone first).
 */
#include "daemon/simulate/trace.h"

enum caches_way {
    CACHES_LRU,     /* least recently used */
    CACHES_PARTIAL, /* the same, a prompt's last, partial block before all others */
    CACHES_SLRU,    /* segmented: used once first, then what was used again; that may be a third */
    CACHES_LFU_DA,  /* uses since it came, with the age of what was evicted last (Arlitt et al. 2000) */
    CACHES_GDSF,    /* the same, divided by the prompt's length (Cherkasova 1998) */
    CACHES_S3_FIFO, /* a tenth on probation, then a queue with second chances (Yang et al., SOSP'23) */
    CACHES_LOG,     /* last use, later by 300 requests for each doubling of uses */
    CACHES_LEARNED, /* daemon/cache/worth.h */
    CACHES_ORACLE,  /* knows the future: the one used last of all */
    CACHES_WAYS,
};

extern const char *const caches_names[CACHES_WAYS];

/* Tokens of prompts found in a cache of @room blocks: *hit. 0 or -ENOMEM. */
int caches_run(const struct trace *t, enum caches_way way, uint64_t room, uint64_t *hit);

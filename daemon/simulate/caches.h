/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Replays a trace against eviction policies: one request after the other, no scheduler, no held blocks. A block is one
 * hash id. Every policy evicts only leaves, so the successors of a block are evicted before it.
 */
#include "daemon/simulate/trace.h"

enum caches_policy {
    CACHES_LRU,     /* least recently used */
    CACHES_PARTIAL, /* the same, but the last, partial block of a prompt before all others */
    CACHES_SLRU,    /* segmented: blocks used once first, then the protected ones, at most a third */
    CACHES_LFU_DA,  /* uses since it was cached plus the age of the last eviction (Arlitt et al. 2000) */
    CACHES_GDSF,    /* the same, uses divided by the prompt's length (Cherkasova 1998) */
    CACHES_S3_FIFO, /* a small queue of a tenth, then a queue with second chances (Yang et al., SOSP'23) */
    CACHES_LOG,     /* last use, plus 300 requests for each doubling of uses */
    CACHES_LEARNED, /* daemon/cache/prefix/eviction-score.h */
    CACHES_ORACLE,  /* knows the future: evicts the block whose next use is the latest */
    CACHES_POLICIES,
};

extern const char *const caches_names[CACHES_POLICIES];

/* *hit: tokens of prompts found in a cache of @room blocks. 0 or -ENOMEM. */
int caches_run(const struct trace *t, enum caches_policy policy, uint64_t room, uint64_t *hit);

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Files of recurrent states. They have the format of a KV block's file (disk/disk-file.h), with a state in place of K
 * and V, and are in a directory of their own below that of the KV blocks, which they share the space with. A state
 * without the KV of its node is of no use: at a start its file is removed. Private to spill*.c, but for the callback.
 */
#include "daemon/cache/prefix/prefix.h"
#include <stdint.h>

struct kv_cache;

/* The part of the disk's space for KV blocks and for states. */
uint64_t spill_kv_bytes(const struct kv_cache *c, uint64_t bytes);
uint64_t spill_state_bytes(const struct kv_cache *c, uint64_t bytes);

/* Index the files; those of KV are indexed already. Without a usable directory states are kept only in memory, and a
 * warning says so. */
void spill_states_open(struct kv_cache *c);
/* In each turn of the engine: remove files if there are too many. @idle: and write one state that is worth it. */
void spill_states_turn(struct kv_cache *c, uint64_t now, bool idle);
/* There is a state to write, as far as is known. */
bool spill_states_left(const struct kv_cache *c);
/* Write the states that are worth it, the latest first, until @until (monotonic, us). */
void spill_states_flush(struct kv_cache *c, uint64_t until);

/* A prefix_evict_fn for states. @ctx: the cache. */
bool spill_state_evicting(void *ctx, const struct prefix_info *info);

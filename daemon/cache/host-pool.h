/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Host memory for KV blocks and recurrent states that a device has no room for: the tier between its memory and the
 * disk (prefix/prefix-host.h and prefix/prefix-state.h decide what is in it). A slot has room for the payload of a node
 * (payload.h): each group's block has its place. States have slots of their own. The memory comes from the backend, in
 * pieces: one at the start, others by jobs when the device's blocks become few and before slots do.
 *
 * The engine's thread calls these functions. A job may read a slot on which its sender holds a reference.
 */
#include <stdbool.h>
#include <stdint.h>

struct backend;
struct job_returns;
struct host_pool; /* opaque; body in host-pool.c */
struct kv_cache;
struct kv_pool;

struct host_tier_stats {
    uint64_t slots, free; /* with those that have no memory yet */
    uint64_t bytes;       /* of a slot */
};

struct host_pool_stats {
    struct host_tier_stats blocks, states;
    uint64_t bytes, bytes_taken; /* of all slots; of the memory that was taken so far */
};

/* Bytes with which there is room for one block, and for one recurrent state where the model has these. */
uint64_t host_pool_least(const struct backend *b);

/* Give the cache @bytes of host memory; its index has no node yet. The device's memory for KV and states is the measure
 * of how much each gets. 0, also without slots, then c->host is NULL: with @bytes 0, or for a backend whose blocks are
 * in host memory themselves. -ENOMEM. */
int host_pool_new(struct kv_cache *c, uint64_t bytes, struct job_returns *jobs);
/* The index is freed. */
void host_pool_free(struct kv_cache *c);

/* What is evicted is copied while the engine continues. The copies may be under way: before a job reads a slot or
 * writes to blocks, it calls kv_saved. */
bool host_pool_busy(const struct kv_cache *c);
/* Wait for the copies to @slot, or to that of a state. 0; -EIO and the error message: they have failed. */
int host_pool_wait(struct kv_cache *c, uint32_t slot);
int host_pool_wait_state(struct kv_cache *c, uint32_t slot);
/* Wait for all; what has failed leaves the index. */
void host_pool_settle(struct kv_cache *c);
/* In each turn of the engine; @stepped: after a step, behind which all copies are done. Lets a job take more memory. */
void host_pool_turn(struct kv_cache *c, bool stepped);

/* The block of @group in a slot that is not free. */
uint8_t *host_pool_at(const struct host_pool *h, uint32_t slot, uint32_t group);
/* The state in such a slot. */
uint8_t *host_pool_state(const struct host_pool *h, uint32_t slot);
/* The references on slots, and on those of states; NULL: there are none. */
struct kv_pool *host_pool_slots(const struct host_pool *h);
struct kv_pool *host_pool_state_slots(const struct host_pool *h);
void host_pool_stats(const struct kv_cache *c, struct host_pool_stats *out);

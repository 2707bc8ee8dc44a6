/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Host memory for KV blocks that a device has no room for: the tier between its memory and the disk
 * (prefix/prefix-host.h decides what is in it). A slot has room for the payload of a node (payload.h): each group's
 * block has its place. The memory comes from the backend, in pieces: one at the start, others by jobs when the device's
 * blocks become few and before slots do, and stays until the end.
 *
 * The engine's thread calls these functions. A job may read a slot on which its sender holds a reference.
 */
#include <stdbool.h>
#include <stdint.h>

struct job_returns;
struct host_pool; /* opaque; body in host-pool.c */
struct kv_cache;
struct kv_pool;

struct host_pool_stats {
    uint64_t blocks, blocks_free; /* slots, with those that have no memory yet */
    uint64_t bytes, bytes_taken;  /* of all slots; of the memory that was taken so far */
};

/* Give the cache @bytes of host memory; its index has no node yet. 0, also without slots, then c->host is NULL: with
 * @bytes 0, for a backend whose blocks are in host memory themselves, and for models with recurrent layers. -ENOMEM. */
int host_pool_new(struct kv_cache *c, uint64_t bytes, struct job_returns *jobs);
/* The index is freed. */
void host_pool_free(struct kv_cache *c);

/* Evicted blocks are copied while the engine continues. The copies may be under way: before a job reads a slot or
 * writes to blocks, it calls kv_saved. */
bool host_pool_busy(const struct kv_cache *c);
/* Wait for the copies to @slot. 0; -EIO and the error message: they have failed. */
int host_pool_wait(struct kv_cache *c, uint32_t slot);
/* Wait for all; what has failed leaves the index. */
void host_pool_settle(struct kv_cache *c);
/* In each turn of the engine; @stepped: after a step, behind which all copies are done. Lets a job take more memory. */
void host_pool_turn(struct kv_cache *c, bool stepped);

/* The block of @group in a slot that is not free. */
uint8_t *host_pool_at(const struct host_pool *h, uint32_t slot, uint32_t group);
/* The references on slots. */
struct kv_pool *host_pool_slots(const struct host_pool *h);
void host_pool_stats(const struct kv_cache *c, struct host_pool_stats *out);

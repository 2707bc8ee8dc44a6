/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The pool of KV blocks: it counts the references on each block and hands out free ones. A block is known by its id,
 * 0 … blocks-1; the backend owns the tensor memory behind the id. Each KV group has one pool. The pool has no lock: the
 * engine thread owns it.
 */
#include "daemon/model/kv-block.h"
#include <stdint.h>

struct kv_pool; /* opaque; body in kv-pool.c */

/* Makes a pool of @blocks free blocks. 0: *out is the caller's, who calls kv_pool_free. -ENOMEM: *out is untouched. */
int kv_pool_new(struct kv_pool **out, uint32_t blocks);
/* Frees the pool and returns NULL. @p may be NULL. Asserts that no block has a reference. */
struct kv_pool *kv_pool_free(struct kv_pool *p);

/* Takes a free block; *id has one reference, the caller's. 0; -ENOBUFS without a free block (*id is untouched). */
int kv_pool_take(struct kv_pool *p, uint32_t *id);
/* Adds a reference to a block that has one. */
void kv_pool_ref(struct kv_pool *p, uint32_t id);
/* Removes a reference; the block becomes free with the last one. */
void kv_pool_unref(struct kv_pool *p, uint32_t id);
/* The number of references on the block; 0: it is free. */
uint32_t kv_pool_refs(const struct kv_pool *p, uint32_t id);
/* There are @blocks blocks from now on, at most as many as were made: more free ones, or less, if the others are free.
 */
void kv_pool_limit(struct kv_pool *p, uint32_t blocks);
/* The number of blocks, used and free. */
uint32_t kv_pool_total(const struct kv_pool *p);
/* The number of free blocks. */
uint32_t kv_pool_free_blocks(const struct kv_pool *p);

/*
 * Finds free blocks whose memory the backend can return to the system. Searches from block *at for the next run of free
 * blocks that were taken since the last sweep over them, stores the first one in *at and returns the length of the run,
 * at most @most. These blocks count as never taken from then on. 0: no such block follows; *at is the pool's size.
 */
uint32_t kv_pool_sweep(struct kv_pool *p, uint32_t *at, uint32_t most);

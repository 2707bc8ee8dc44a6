/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * KV blocks by id: which are free, who holds them. The tensor memory behind an id is the backend's. One pool per KV
 * group. Not locked: it belongs to the engine thread.
 */
#include <stdint.h>

struct kv_pool; /* opaque; body in kv_pool.c */

int kv_pool_new(struct kv_pool **out, uint32_t blocks);
struct kv_pool *kv_pool_free(struct kv_pool *p); /* NULL ok, returns NULL; asserts that nothing is held */

/* A block with one reference. 0; -ENOBUFS when none is free (*id untouched). */
int kv_pool_take(struct kv_pool *p, uint32_t *id);
void kv_pool_ref(struct kv_pool *p, uint32_t id);
void kv_pool_unref(struct kv_pool *p, uint32_t id); /* the last reference frees it */
uint32_t kv_pool_refs(const struct kv_pool *p, uint32_t id);
uint32_t kv_pool_total(const struct kv_pool *p);
uint32_t kv_pool_free_blocks(const struct kv_pool *p);

/* The next run, from block *at on, of free blocks that were taken since they were last told here: up to @most of them,
 * the first one in *at. 0: there is none. Once told they count as never taken. */
uint32_t kv_pool_sweep(struct kv_pool *p, uint32_t *at, uint32_t most);

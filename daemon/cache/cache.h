/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The KV cache as a whole: the pools of blocks, the index that finds blocks by their content, and behind it the host's
 * memory, where the blocks are in a device's, and the disk. Engine thread only, but for the jobs that read and write
 * the disk, or copy blocks back.
 */
#include "daemon/cache/host-pool.h"
#include "daemon/cache/kv/kv-table.h"
#include "daemon/cache/prefix/prefix-state.h"
#include "daemon/cache/prefix/prefix.h"
#include "daemon/cache/spill.h"
#include "daemon/model/backend.h"

struct kv_cache {
    struct backend *backend; /* borrowed; owns the tensor memory */
    struct kv_pool *pools[KV_GROUPS_MAX];
    uint32_t n_groups;      /* that have KV: those of the backend's hparams but for the recurrent layers */
    uint32_t state;         /* the group of the recurrent layers, behind them; 0: there are none */
    uint32_t state_percent; /* a chain's states may take this part of the bytes of its KV; after kv_cache_new */
    struct prefix *prefix;
    struct host_pool *host; /* NULL: none */
    struct spill *spill;
    struct prefix_namespace public_namespace; /* of the prefixes that all users may find */
    bool has_public;                          /* there are such prefixes */
    bool may_keep;                            /* the weights are verified, so that KV may be written to disk */
    bool shedding;                            /* memory is short: nothing evicted is written */
    bool lost;                                /* the blocks' contents, with a device: see request/recover.h */
    bool stopping;                            /* nothing new is written until the final flush */
};

/* Fill @c (zero before). 0 or -ENOMEM; kv_cache_free in either case. Without a usable directory the cache lives in
 * memory only, and a warning says so. */
int kv_cache_new(struct kv_cache *c, struct backend *b, const struct spill_config *t, struct job_returns *jobs);
/* Write blocks that are not on disk until @until (monotonic, us), and free everything. */
void kv_cache_free(struct kv_cache *c, uint64_t until);

/* The number of pools. */
static inline uint32_t kv_cache_pools(const struct kv_cache *c)
{
    return c->n_groups + (c->state > 0);
}

/* Evict blocks without users until @blocks of @group are free. False: so many cannot be had. */
bool kv_cache_make_room(struct kv_cache *c, uint32_t group, uint32_t blocks);

/* Make @t, a table of @group, cover @end positions: its blocks [from, to) are no longer needed and become the next
 * ones, others are taken, evicting unused ones if necessary. 0; -ENOBUFS: there is no room; -ENOMEM. */
int kv_cache_slide(struct kv_cache *c, uint32_t group, struct kv_table *t, uint32_t from, uint32_t to, uint32_t end);

/* Remove the references of all tables of a sequence; they are empty afterwards. */
void kv_cache_drop(struct kv_cache *c, struct kv_tables *t);

/* The namespace of what @owner computes. */
void kv_cache_namespace(const struct kv_cache *c, const struct namespace_owner *owner, struct prefix_namespace *out);

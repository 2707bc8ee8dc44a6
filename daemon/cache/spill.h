/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Spills KV blocks to disk, the last tier of the cache: decides which blocks are written to disk and which files are
 * removed, and holds the secret of the cache's namespaces. The engine's thread decides; jobs read and write. Only the
 * start and the final flush wait for the disk.
 */
#include "daemon/cache/disk/disk.h"
#include "daemon/cache/disk/namespace.h"
#include "daemon/cache/prefix/prefix.h"
#include "daemon/cache/spill-config.h"
#include "daemon/jobs/returns.h"

struct kv_cache;
struct spill; /* opaque; body in spill-state.h */

/* Load the secret; index the files of the directory if the model's identity is known already. Needs c->prefix. 0 or
 * -ENOMEM. */
int spill_new(struct kv_cache *c, const struct spill_config *config, struct job_returns *jobs);
/* Write blocks that are not on disk, the latest first, until @until (monotonic, us). Without a disk it does nothing. */
void spill_flush(struct kv_cache *c, uint64_t until);
void spill_free(struct kv_cache *c);

/* cache_bytes and disk_reserve have changed. */
void spill_limit(struct kv_cache *c, uint64_t cache_bytes, uint64_t disk_reserve);

void spill_namespace(const struct spill *t, const struct namespace_owner *owner, struct prefix_namespace *out);

/* Called in each turn of the engine, which has done @steps steps so far: opens the disk once the model's identity is
 * known, removes files when space on disk is short, and writes a block or two when the engine is idle. */
void spill_turn(struct kv_cache *c, uint64_t now, uint64_t steps);
uint64_t spill_next(const struct kv_cache *c, uint64_t now); /* us when spill_turn has work; UINT64_MAX: none */

/* A prefix_evict_fn: a block leaves memory, or host memory behind it; it is copied and written if the rate limit
 * allows.
 * @ctx: the cache. */
bool spill_evicting(void *ctx, const struct prefix_info *info);

/* The disk cache from which blocks are read; NULL: not open (yet). */
struct disk *spill_disk(const struct kv_cache *c);
struct job_returns *spill_jobs(const struct kv_cache *c);

/* The same for recurrent states. */
struct disk *spill_states(const struct kv_cache *c);

/* Sums for status, of KV blocks and of recurrent states. False: nothing is written (yet). */
bool spill_count(const struct kv_cache *c, struct disk_stats *out);
bool spill_count_states(const struct kv_cache *c, struct disk_stats *out);

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What outlives the process: the KV cache on disk (behind the prefix index), the secret of its namespaces, and where
 * sessions are. The engine thread decides, the job pool reads and writes; nothing here waits for a disk, but for the
 * start and the flush at the end.
 */
#include "daemon/cache/disk.h"
#include "daemon/cache/prefix.h"
#include "daemon/cache/space.h"

#define STORE_SLICE 16 /* blocks that one job reads: about 12 MB, a few milliseconds */

struct engine;
struct seq;
struct store; /* opaque; body in store.c */

/* Secret, index; what is on disk when the model is known already. 0 or -ENOMEM. Without a usable directory it goes on
 * in memory and says so. */
int store_new(struct engine *e);
/* Write what is not on disk, until @until (monotonic, us), and give everything back. */
void store_free(struct engine *e, uint64_t until);

/* config.cache_bytes has changed. */
void store_limit(struct engine *e);

/* The namespace of @s's owner. */
void store_space(const struct engine *e, const struct seq *s, struct prefix_space *out);

/* Of each turn: opens the disk once the model is known, and lets the job pool write a block or two that nobody uses. */
void store_look(struct engine *e, uint64_t now);
uint64_t store_next(const struct engine *e, uint64_t now); /* us when that has something to do; UINT64_MAX: nothing */

/* A prefix_leave_fn: a block is evicted; it is copied to be written, when that can be afforded. @ctx: the engine. */
bool store_leaving(void *ctx, const struct prefix_info *info);

/* Read the next blocks of @s that only the disk has into its own; false: there are none. True: @s is in the job pool
 * (SEQ_FETCHING) until store_fetched takes it back. */
bool store_fetch(struct engine *e, struct seq *s);
void store_fetched(struct engine *e, struct seq *s);
/* Forget the job: it was taken back before it began. */
void store_unfetch(struct engine *e, struct seq *s);

/* False: nothing is written (yet). */
bool store_count(const struct engine *e, struct disk_sum *out);

/* SPDX-License-Identifier: MIT */
#pragma once
/* Blocks of a sequence's prefix that are not in memory, but in host memory or on disk: a job copies or reads them into
 * the sequence's own blocks. */
#include "daemon/cache/cache.h"

struct seq;

/* Start to read the next blocks of @s, which becomes SEQ_FETCHING; later @done(s) is called in the engine's thread, and
 * first calls seq_fetched. False: there are none, or there is no memory; s->kv.tables[0] is empty if @s has lost its
 * blocks, and is to be preempted. */
bool seq_fetch(struct kv_cache *c, struct seq *s, void (*done)(struct seq *s));

/* The job is back. Takes over the blocks that were read, unless @s has ended. True: there may be more. As seq_fetch,
 * @s can have lost its blocks. */
bool seq_fetched(struct kv_cache *c, struct seq *s);

/* The blocks of @s, which is SEQ_FETCHING, are lost with a device's memory: when the job is back, @s has none. */
void seq_fetch_spoil(struct seq *s);

/* Take back a fetch that has not begun. False: it runs, and @done will be called. */
bool seq_fetch_recall(struct kv_cache *c, struct seq *s);

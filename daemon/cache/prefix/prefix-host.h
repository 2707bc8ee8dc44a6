/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Nodes in host memory, for a backend whose blocks are in a device's: the tier between memory and disk. A slot there
 * has room for a node's blocks in all groups. A block that leaves memory is copied to its node's slot, and found again
 * as one in a file is; once it is in memory again, the slot lacks it. A slot that lacks all is free. A node without a
 * block in group 0, in memory or its slot, has no slot. Recurrent states have slots of their own (prefix-state.h).
 *
 * Without a free slot, one is taken from the uid with most of them: that of the least recently used node that is not
 * pinned and has no child with a slot. A slot is charged to the node's uid.
 */
#include "daemon/cache/prefix/prefix.h"

/* Copies the node's blocks in memory of the groups in @groups, a bit for each, to @slot. False: they cannot be copied.
 * It must not call the index. */
typedef bool (*prefix_host_fn)(void *ctx, const struct prefix_info *info, uint8_t groups, uint32_t slot);

/* Evicted blocks are kept in the slots of @pool from now on, which must outlive the index. Before any node. @on_evict
 * (NULL: none) is called as by prefix_evict for each node that loses its slot. */
void prefix_add_host(struct prefix *p, struct kv_pool *pool, prefix_host_fn copy, prefix_evict_fn on_evict, void *ctx);

/* What the slots have is lost, of which @slots [slots of the pool] is true: their nodes lose them. */
void prefix_host_lost(struct prefix *p, const bool *slots);

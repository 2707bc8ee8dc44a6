/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Recurrent states in the prefix index. A model with recurrent layers needs, to continue after some tokens, the KV of
 * all of them in its other layers and the state after the last one. A full node can have such a state, as a block of
 * the state group's pool; it never changes. Most nodes have none. prefix_find then finds no more tokens than up to a
 * node with a state; a partial node is never of use.
 *
 * A state in memory belongs to a node in memory and leaves memory with it, or alone. Pins do not keep it, because it is
 * copied when it is used. With a device, it is kept in host memory then, in a slot of its own, as long as the node has
 * KV anywhere; it is never in both. On disk it has a file of its own, which is of use only with the KV of its node.
 *
 * A state is large, so that there are few. A sequence takes more of them than are kept for long: prefix_state_thin
 * keeps those of a chain whose distances from its end grow geometrically. Without room, prefix_state_evict takes from
 * the uid with most states the one of least worth among its least recently used ones: the tokens to compute again
 * without it, for each unit of time since its last use. One with a file is worth less, the end of a turn more. A state
 * whose block somebody else holds too is the last of its uid to go, because that makes no block free. Slots of host
 * memory are taken back in the same way.
 */
#include "daemon/cache/prefix/prefix.h"

#define PREFIX_CHAIN_STATES 64 /* on one chain that prefix_state_thin looks at */

/* Why a state was taken. */
enum prefix_state_kind {
    PREFIX_STATE_NEAR, /* at a distance before the end of a prompt; not written to disk */
    PREFIX_STATE_TURN, /* the end of a prompt, a message or an answer */
};

/* Nodes have states from now on, in the blocks of @pool, which must outlive the index. Before any node. @on_evict
 * (NULL: none) is called with @ctx as prefix_evict calls its own, for each state that leaves memory, alone or with its
 * node, and is worth a file but has none. */
void prefix_add_states(struct prefix *p, struct kv_pool *pool, prefix_evict_fn on_evict, void *ctx);

/* Copies the state in block info->state to @slot. False: it cannot be copied. It must not call the index. */
typedef bool (*prefix_state_copy_fn)(void *ctx, const struct prefix_info *info, uint32_t slot);

/* States that leave memory are kept in the slots of @pool from now on, which must outlive the index. @on_evict of
 * prefix_add_states is called for those that cannot be, or leave it. Before any node. */
void prefix_add_state_slots(struct prefix *p, struct kv_pool *pool, prefix_state_copy_fn copy, void *ctx);
/* The contents of those slots are lost of which @slots [slots of the pool] is true: their nodes lose the states. */
void prefix_state_slots_lost(struct prefix *p, const bool *slots);

/* The block of the node's state, or KV_NO_BLOCK: none is in memory. */
uint32_t prefix_state_block(const struct prefix_node *n);
/* Its slot in host memory, or KV_NO_BLOCK: it has none. */
uint32_t prefix_state_slot(const struct prefix_node *n);
bool prefix_state_on_disk(const struct prefix_node *n);

/* Gives the full node in memory the state in @block, on which the index takes a reference; it is the most recently used
 * one. False: it has one already, with the same bits, which takes over @kind if that is PREFIX_STATE_TURN. */
bool prefix_state_attach(struct prefix *p, struct prefix_node *n, uint32_t block, enum prefix_state_kind kind);
/* Removes the node's state from memory and host memory, if it has one there. */
void prefix_state_drop(struct prefix *p, struct prefix_node *n);
/* The same, unless it is a PREFIX_STATE_TURN: a later state of the chain replaces it. */
void prefix_state_replace(struct prefix *p, struct prefix_node *n);
/* The node's state is the most recently used one. */
void prefix_state_use(struct prefix *p, struct prefix_node *n);

/* Removes states from memory that the node and its ancestors have beyond @most, but not the node's own. */
void prefix_state_thin(struct prefix *p, struct prefix_node *n, uint32_t most);
/* Which of the @n states at @at (ascending, at least 2) is removed first, never the last one: the one whose neighbours'
 * distances from the last have the smallest ratio. One with @turn counts as if the ratio were four times as large. */
uint32_t prefix_state_least(const uint32_t *at, const bool *turn, uint32_t n);

/* Evicts up to @states states and returns how many. The index removes its own references only. */
uint32_t prefix_state_evict(struct prefix *p, uint32_t states);

/* --- the disk tier --- */

/* Adds the state of a node, which is only in a file that an earlier process has written. Calls come in the order of
 * last use, the least recent first, after those of prefix_disk_add. 0; 1: there is no such node (with the same parent,
 * tokens and namespace), or it has a state. */
int prefix_state_disk_add(struct prefix *p, const struct prefix_info *info);
/* As prefix_disk_begin_write: selects a state in memory or host memory that is not on disk, while its node is. */
bool prefix_state_begin_write(struct prefix *p, bool newest, struct prefix_info *out);
/* There is such a state. */
bool prefix_states_to_write(const struct prefix *p);
void prefix_state_written(struct prefix *p, struct prefix_id id);
void prefix_state_write_failed(struct prefix *p, struct prefix_id id);
/* Selects the file to remove when the disk is full: one whose node has no KV any more, else the least recently used
 * one. *orphan: it has none. False: there is no file. */
bool prefix_state_victim(struct prefix *p, struct prefix_info *out, bool *orphan);
/* The state's file is removed, or cannot be read. */
void prefix_state_removed(struct prefix *p, struct prefix_id id);

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The prefix index: it maps sequences of items (model/items.h) to the KV blocks that hold their K and V. Nearly all
 * items are tokens, so that these comments call all of them tokens. The index is a tree for each namespace. A node is 1
 * … 32 tokens that follow the tokens of its parent. A node of 32 tokens is full and never changes; a node with fewer
 * (the last block of a sequence) is partial, has no children, and its block is only copied from. A full child is found
 * by a hash of all tokens from the root on and confirmed by comparing its tokens. After the last full match, the
 * partial match is the child that shares the longest beginning with the remaining tokens, and can end inside a run.
 *
 * The block of a node is in memory, on disk, in both, or in neither; with a device, host memory is a tier between the
 * two (prefix-host.h). A node in none only keeps the place of its children in the tree, and a later prefix_add can give
 * it a block again. A node in memory has a parent in memory. The index has one reference of the pool on each block in
 * memory.
 *
 * A caller that uses a node takes a reference (prefix_ref). A reference pins the node and all its ancestors: they stay
 * in the tree, and their blocks stay where they are. prefix_evict takes unpinned leaves, which are nodes without
 * children in memory. It takes them from the uid with most blocks in memory; of this uid's leaves, the one with the
 * lowest eviction score first, and the tails of live sessions last, least recently used first. Tails are last among the
 * leaves of their own uid only: a tail keeps all its ancestors in memory, so that otherwise the sessions of one uid
 * could occupy the memory of all.
 *
 * Scores (eviction-score.h) are learned for each uid, on a clock of its own uses. Another uid's requests can change
 * when a uid has to give up blocks, but not which ones. There is one exception: the use count of an evicted block is
 * kept until enough other blocks, of any uid, are evicted; this tells no more than PREFIX_EVICTED does. A uid with few
 * blocks has no scores, and its least recently used leaf is evicted. Scores are not kept across a restart.
 *
 * A partial node in memory is covered when a sibling in memory has its tokens and more. The index drops a covered node
 * as soon as it has no reference and is no tail; its file, if it has one, is then the first that prefix_disk_victim
 * returns.
 *
 * The index has no lock: the engine thread owns it.
 */
#include "daemon/cache/kv/kv-pool.h"
#include "daemon/model/items.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct prefix;
struct prefix_node;

/* The users, model and KV layout that share nodes, as a digest; disk/namespace.h makes it. */
struct prefix_namespace {
    uint8_t bytes[16];
};

/* The id of a node. No id is used twice, in this process or another. All zero: the root of a namespace. */
struct prefix_id {
    uint64_t high, low;
};

/* A copy of a node's data. */
struct prefix_info {
    struct prefix_id id, parent;
    struct prefix_namespace namespace;
    uid_t uid; /* the uid that computed the node first; its memory and disk are charged for it */
    uint32_t n;
    int32_t tokens[KV_BLOCK];    /* [n] */
    const struct item_run *runs; /* [n_runs], with positions from the node's first token on; borrowed */
    uint32_t n_runs;
    uint32_t block;                 /* the id in the pool, or KV_NO_BLOCK */
    uint32_t blocks[KV_GROUPS_MAX]; /* of each group; [0] is @block. KV_NO_BLOCK too beyond the last group */
    uint32_t state, state_slot;     /* its recurrent state's block and slot (prefix-state.h), or KV_NO_BLOCK */
    uint32_t slot;                  /* in host memory (prefix-host.h), or KV_NO_BLOCK: it has none */
    uint64_t used;                  /* the index's clock at the last use, to compare with other nodes; not on disk */
    bool on_disk;
    uint8_t lacks;      /* a bit for each group without a block: in the file; without a file, in memory and the slot */
    uint8_t slot_lacks; /* the same of the slot; all bits: it has none */
};

/* The items of the node, borrowed from @info. */
static inline struct items prefix_info_items(const struct prefix_info *info)
{
    return (struct items){.ids = info->tokens, .n = info->n, .runs = info->runs, .n_runs = info->n_runs};
}

typedef uint64_t (*prefix_hash_fn)(const void *bytes, size_t len, uint64_t seed);

/* Makes an empty index over the blocks of @pool, which must outlive it. @hash NULL: XXH3 with a random seed. A test
 * passes a hash that always collides; the same calls then give the same results, except for the ids. 0: *out is the
 * caller's, who calls prefix_free. -ENOMEM or -errno of getrandom: *out is untouched. */
int prefix_new(struct prefix **out, struct kv_pool *pool, prefix_hash_fn hash);
/* Frees the index, removes its references on blocks, and returns NULL. @p may be NULL. Asserts that no node has a
 * reference. */
struct prefix *prefix_free(struct prefix *p);

/* --- groups with a window --- */

/*
 * A node has a block of its own in each further KV group, whose layers see a window only. These blocks come and go by
 * themselves: a node in memory can lack some, and pins do not keep them, because a sequence that computes has left most
 * of its ancestors' blocks behind. prefix_find finds no more than what can be continued: the last node and those that
 * the window reaches have their blocks. A node is written to disk with the blocks that it has; if it has more later, it
 * is written again. When a node leaves memory, so do all its blocks.
 */

/* Adds a group, whose blocks are in @pool and whose layers see @window positions; its number is 1, 2, … in the order
 * of the calls. Before any node. 0 or -ENOMEM. */
int prefix_add_window(struct prefix *p, struct kv_pool *pool, uint32_t window);
/* The node's block in @group, 1 or more; KV_NO_BLOCK: it has none. */
uint32_t prefix_window_block(const struct prefix_node *n, uint32_t group);
/*
 * Which of these blocks stay. A hit at depth n needs those of the window before n. While a chain grows,
 * prefix_window_trim gives up the block that the window leaves behind, unless it is kept: prefix_window_keep marks the
 * blocks for hits at a node, and at most 64 tokens before it. At the end of a chain, prefix_window_thin gives up what
 * no end and no branch needs, but for the blocks of one window (or of a 32nd of the chain, if that is more) that are
 * nearest to the end, and as many that are nearest to the root.
 */
enum prefix_keep {
    PREFIX_KEEP_NOT,
    PREFIX_KEEP,
    PREFIX_KEEP_ONCE /* also by the next prefix_window_thin: it is about to be used */
};

/* Keeps the blocks that a token after @n, or shortly before it, sees. */
void prefix_window_keep(struct prefix *p, struct prefix_node *n, enum prefix_keep keep);
/* @n was added to a chain: gives up the blocks that fall behind. */
void prefix_window_trim(struct prefix *p, struct prefix_node *n);
/* The chain ends with @n until it grows. Takes a step for each ancestor. */
void prefix_window_thin(struct prefix *p, struct prefix_node *n);

/* Gives a node in memory that has no block in @group this one, which holds its first @tokens tokens. The index takes a
 * reference. Does nothing if the node has more tokens. */
void prefix_window_attach(struct prefix *p, struct prefix_node *n, uint32_t group, uint32_t block, uint32_t tokens);

/* --- lookup --- */

/* The reason why a match is shorter than the tokens. */
enum prefix_miss {
    PREFIX_ALL,     /* all tokens match */
    PREFIX_NEW,     /* the next tokens were never in the index, as far as it remembers */
    PREFIX_EVICTED, /* the next tokens were in the index and have been evicted */
};

struct prefix_match {
    struct prefix_node *node;    /* the last full node in memory, counted from the root; NULL: none */
    uint32_t n;                  /* tokens up to and with @node, a multiple of 32 */
    struct prefix_node *partial; /* a child of @node in memory whose first @n_partial tokens match; NULL: none */
    uint32_t n_partial;          /* 0 … 31: a child with 32 would be @node */
    uint32_t n_disk;  /* tokens after @n that memory, host memory and disk have, when more than @n_partial; else 0 */
    uint32_t n_known; /* tokens of which one of them has the KV of group 0 */
    struct prefix_node *state; /* with recurrent states: the node n + n_disk tokens from the root, whose state only
                                * host memory or the disk has; NULL: that of @node is in memory, or there is none */
    enum prefix_miss miss;     /* why n + max(n_partial, n_disk) is less than the number of tokens. The index remembers
                                * the most recent evictions of full blocks only. */
};

/* Finds the longest beginning of @items in the namespace. Changes nothing and takes no reference: the nodes in *out are
 * valid until the next call that can evict or remove one. */
void prefix_find(const struct prefix *p, const struct prefix_namespace *ns, struct items items,
                 struct prefix_match *out);

/* Finds the child of @parent (NULL: the root of @ns), in memory, host memory or on disk, that shares the longest
 * beginning with
 * @items. *common is the number of shared tokens, which may be less than the child has. NULL: no child shares a token,
 * and *common is 0. Takes no reference. */
struct prefix_node *prefix_child(const struct prefix *p, const struct prefix_namespace *ns,
                                 const struct prefix_node *parent, struct items items, uint32_t *common);
/* The parent; NULL: it is the root of the namespace. Takes no reference. */
struct prefix_node *prefix_parent(const struct prefix_node *n);
/* The node's block in the pool, or KV_NO_BLOCK. */
uint32_t prefix_block(const struct prefix_node *n);
/* Copies the node's data into *out, but for the runs, which stay the node's: they do not change, and are valid as long
 * as the node is in the tree. */
void prefix_info(const struct prefix_node *n, struct prefix_info *out);

/* Makes the node and its ancestors the most recently used ones. Takes a step for each ancestor. For the end of a
 * request, and for a request that resumes after a preemption. */
void prefix_touch(struct prefix *p, struct prefix_node *n);
/* As prefix_touch, for a new request whose tokens begin with the node's: also counts a use of each node, from which the
 * scores are learned. */
void prefix_use(struct prefix *p, struct prefix_node *n);

/* --- references and insertion --- */

/* Takes a reference on the node: pins it and its ancestors. */
void prefix_ref(struct prefix *p, struct prefix_node *n);
/* Removes a reference. This can free the node: it has no block and no file, or it is covered. */
void prefix_unref(struct prefix *p, struct prefix_node *n);

/*
 * Inserts @items (1 … 32) as a child of @parent (NULL: of the root of @ns), with their K and V in @block. The caller
 * has a reference on @block and keeps it; the index takes one of its own. @uid is charged. @parent is NULL, or full, in
 * memory and pinned.
 *
 * 0: *out is a new node, or one that was not in memory and is now. Partial siblings that the new node covers are
 * dropped, unless they are pinned or tails. 1: *out is an equal node that is in memory already, or a longer sibling in
 * memory that covers the partial one; the index took no reference on @block, and the caller can use prefix_block(*out)
 * in its place. -ENOMEM: nothing has changed.
 *
 * *out becomes the most recently used node, its ancestors do not. It has no reference.
 */
int prefix_add(struct prefix *p, const struct prefix_namespace *ns, struct prefix_node *parent, struct items items,
               uint32_t block, uid_t uid, struct prefix_node **out);

/* Marks the node as the tail of a live session, or removes one mark. Marks are counted. The index evicts a tail after
 * all other leaves of its uid. An unknown id does nothing, and neither does the removal of a mark that is not set. */
void prefix_mark_tail(struct prefix *p, struct prefix_id id, bool tail);

/* --- eviction from memory --- */

/* prefix_evict calls it for each node before the block leaves memory, while the block still has its data, but not for a
 * node that is already being written. True: the caller has copied the data and writes it to disk; the node stays until
 * prefix_disk_written or prefix_disk_write_failed. For a node on disk, unless its file lacks blocks that the node has,
 * the return value has no effect. The function must not call the index. */
typedef bool (*prefix_evict_fn)(void *ctx, const struct prefix_info *info);

/* Evicts up to @blocks blocks and returns how many. The index removes its own references only: a block that a table
 * refers to does not become free. Where there is host memory, nodes are kept there, and @on_evict is called for those
 * that cannot be. @on_evict may be NULL: the nodes are kept nowhere. */
uint32_t prefix_evict(struct prefix *p, uint32_t blocks, prefix_evict_fn on_evict, void *ctx);
/* As prefix_evict, for the blocks of a group with a window: evicts those that no table refers to, of the uid with
 * most of them the least recently used ones. The nodes stay in memory. */
uint32_t prefix_window_evict(struct prefix *p, uint32_t group, uint32_t blocks, prefix_evict_fn on_evict, void *ctx);
/* The number of blocks that prefix_evict could evict now; O(1). */
uint32_t prefix_evictable(const struct prefix *p);

/* --- the disk tier; disk/disk.h has the files --- */

/*
 * Adds a node whose block is only in a file, which an earlier process has written. Calls come in the order of last use,
 * the least recent first. The block and on_disk in *info are ignored; the runs are copied. 0; 1: the parent is unknown
 * (so far); -EEXIST: there is a node with the same id, or one with the same tokens at the same place; -EBADMSG: the
 * data is invalid (its length, its runs, a partial parent, a parent in another namespace); -ENOMEM. Nothing has changed
 * unless it returns 0.
 */
int prefix_disk_add(struct prefix *p, const struct prefix_info *info);
/*
 * Selects a node to write: one that is in memory or host memory and not on disk, whose parent is the root or on disk,
 * and whose last use came before the last @young uses of any node (each touch, insertion and prefix_disk_add is one).
 * It is the least recently used of these, or the most recently used one with @newest. False: none. The node is marked
 * as being written and stays in the tree until prefix_disk_written or prefix_disk_write_failed. The block can still
 * leave memory, unless the caller takes a reference.
 */
bool prefix_disk_begin_write(struct prefix *p, bool newest, uint64_t young, struct prefix_info *out);
/* The node is on disk now. An unknown id does nothing. */
void prefix_disk_written(struct prefix *p, struct prefix_id id);
/* The node could not be written. An unknown id does nothing. */
void prefix_disk_write_failed(struct prefix *p, struct prefix_id id);
/* Selects the file to remove when the disk is full: the least recently used node on disk that is not pinned and has no
 * child on disk. Changes nothing. False: none. */
bool prefix_disk_victim(struct prefix *p, struct prefix_info *out);
/* The node's file is removed, or cannot be read. Descendants on disk stay; they can be read again after the node has a
 * block again. An unknown id does nothing. */
void prefix_disk_removed(struct prefix *p, struct prefix_id id);

/* --- statistics --- */

struct prefix_stats {
    uint64_t nodes, blocks_memory, blocks_host, blocks_disk; /* blocks_host: slots */
    uint64_t evictions;                                      /* blocks evicted from memory since the start */
    uint64_t states_memory, states_host, states_disk;
};

/* Copies the statistics of @uid into *out; (uid_t)-1: of all uids. */
void prefix_stats_get(const struct prefix *p, uid_t uid, struct prefix_stats *out);

/* Recomputes all links, queues and statistics from the nodes and asserts that they are equal. For tests. */
void prefix_check(const struct prefix *p);

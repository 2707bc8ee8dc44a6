/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The body of the prefix index, private to this folder. As in prefix.h, comments call all items tokens. Each namespace
 * has a root, which is a node without tokens, so that each other node has a parent. The state of a node determines the
 * queues it is in: code that changes the state calls prefix_node_requeue, which inserts the node into the right queues
 * and removes it from the others, and prefix_node_prune, which frees nodes that have no purpose left.
 *
 * Invariants: the parent of a node in memory is in memory or a root; a partial node has no children; no sibling in
 * memory covers a partial node in memory that is neither pinned nor a tail.
 */
#include "daemon/cache/prefix/eviction-score.h"
#include "daemon/cache/prefix/prefix-host.h"
#include "daemon/cache/prefix/prefix-state.h"
#include "daemon/cache/prefix/prefix-table.h"
#include "daemon/cache/prefix/prefix-tree.h"
#include "daemon/cache/prefix/prefix.h"

/* Bits of prefix_node.in_children. */
enum { IN_MEMORY = 1, ON_DISK = 2, INDEXED = 4, ON_HOST = 8 };
#define READABLE  (IN_MEMORY | ON_HOST | ON_DISK)
#define ANY_CHILD (READABLE | INDEXED)

#define PREFIX_PREFETCH       8   /* blocks that prefix_children_prefetch hashes at most */
#define PREFIX_USES_MAX       7   /* the largest use count; it fits into the low bits of a ghost */
#define PREFIX_LEARN_BLOCKS   256 /* blocks in memory from which on a uid has scores (struct eviction_score is large) */
#define PREFIX_FORGET_DIVISOR 4   /* the uid's scores are freed below PREFIX_LEARN_BLOCKS divided by this */
#define PREFIX_WINDOWS        (KV_GROUPS_MAX - 1)
#define PREFIX_TAILS          SCORE_CLASSES
#define PREFIX_QUEUES         (SCORE_CLASSES + 1)
#define PREFIX_TURN_WORTH     4 /* by which the state at the end of a turn is worth more */

/* A node's block in a group with a window. */
struct prefix_window {
    struct prefix_node *node;
    uint32_t block;                      /* or KV_NO_BLOCK: in no list */
    uint8_t keep;                        /* enum prefix_keep */
    struct prefix_window *older, *newer; /* of the owner and group, by last use */
};

/* The blocks of an owner in such a group. */
struct prefix_window_list {
    struct prefix_window *oldest, *newest;
    uint32_t n;
};

/* A group with a window. */
struct prefix_window_group {
    struct kv_pool *pool;
    uint32_t window;
    uint32_t *refs; /* [blocks of the pool] nodes that have the block */
};

/* Where a state can be, but for the disk: in one of both at most. */
enum prefix_tier { PREFIX_MEMORY, PREFIX_HOST, PREFIX_TIERS };

/* A node's recurrent state. */
struct prefix_state {
    struct prefix_node *node;
    uint32_t blocks[PREFIX_TIERS]; /* of the tiers' pools, or KV_NO_BLOCK; all of them: in no list */
    bool on_disk, writing;
    enum prefix_state_kind kind;
    uint64_t used;                      /* prefix.clock at the last use */
    struct prefix_state *older, *newer; /* of its owner in its tier, by last use or arrival */
    struct tree_link file, write;       /* in prefix_states.files, prefix_states.write */
};

/* The states of an owner in a tier. */
struct prefix_state_list {
    struct prefix_state *oldest, *newest;
    struct tree_link in_owners; /* of prefix_state_tier.owners */
};

struct prefix_state_tier {
    struct kv_pool *pool; /* NULL: there is none */
    struct tree owners;   /* that have states here, by their number */
};

/* The states of all nodes. */
struct prefix_states {
    struct prefix_state_tier tiers[PREFIX_TIERS]; /* without memory, the model has none */
    prefix_evict_fn on_evict;
    void *ctx;
    prefix_state_copy_fn copy; /* to a slot of host memory */
    void *copy_ctx;
    struct tree files; /* states on disk by last use; those without KV first */
    struct tree write; /* states in memory or host memory to write to disk, by last use */
};

#define PREFIX_ALL_GROUPS 0xff

/* A node's slot in host memory. */
struct prefix_host {
    struct prefix_node *node;
    uint32_t slot;          /* or KV_NO_BLOCK */
    uint32_t n_children;    /* with slots */
    uint8_t lacks;          /* a bit for each group whose block it lacks, and for those that do not exist */
    struct tree_link evict; /* of its node's owner, by last use: without pins and children with slots */
};

/* Those of all nodes. */
struct prefix_hosts {
    struct kv_pool *pool; /* NULL: there is no host memory behind that of the blocks */
    prefix_host_fn copy;
    prefix_evict_fn on_evict;
    void *ctx;
    struct tree owners; /* that have nodes to remove, by their number of slots */
};

/* A node's groups with a window. */
struct prefix_node_groups {
    struct prefix_window *windows; /* [n], behind the node; NULL: there are no such groups, or a root */
    uint8_t n;
    uint8_t disk_lacks, write_lacks; /* as bits: those that its file lacks; that the one being written lacks */
};

struct prefix_node {
    /* In prefix.full (a full node) or prefix.namespaces (a root). The hash of all tokens from the root on. */
    struct table_link by_hash;
    struct prefix_node *parent; /* NULL: a root */
    struct prefix_root *root;
    uint64_t used;  /* prefix.clock at the last use */
    uint64_t since; /* its owner's clock at the last use */
    uint32_t block; /* or KV_NO_BLOCK */
    uint32_t pins;  /* its own references, plus the number of its children with pins */
    uint32_t n_children_memory, n_children_disk;
    uint8_t n;                     /* tokens */
    uint8_t uses;                  /* requests that computed or found it, as far as known; at most PREFIX_USES_MAX */
    bool on_disk, writing, listed; /* the latter: in one of the queues at the end */
    uint8_t n_runs;                /* parts of runs among the tokens */
    int32_t tokens[KV_BLOCK];

    uint32_t refs, tails, n_children;
    struct prefix_owner *owner; /* NULL: a root */
    struct prefix_node_groups group;
    struct prefix_state *state;  /* behind the windows; NULL: the model has none, or not a full node */
    struct prefix_host *host;    /* behind the windows; NULL: there is no host memory, or a root */
    const struct item_run *runs; /* [n_runs], behind these, with positions from the first token on */
    struct prefix_id id;
    struct table_link by_id;
    struct tree children;         /* ordered by tokens */
    struct tree_link in_children; /* of the parent */
    /* In prefix_owner.evict (evictable leaves), prefix.write and prefix.disk. */
    struct {
        struct tree_link evict, write, disk;
    } queued;
};

struct prefix_root {
    struct prefix_node node;
    struct prefix_namespace namespace;
};

/* A uid. It stays when it has no nodes left, for its count of evictions. */
struct prefix_owner {
    struct table_link by_uid;
    uid_t uid;
    struct prefix_stats stats;
    uint64_t clock;                   /* blocks added, plus requests that began with one of its blocks */
    struct eviction_score *score;     /* NULL: the uid has too few blocks */
    struct tree evict[PREFIX_QUEUES]; /* evictable leaves by last use: a queue for each class of uses, one for tails */
    struct prefix_window_list windows[PREFIX_WINDOWS];
    uint64_t window_pass;       /* of prefix.window_passes: it has nothing more to give in this one */
    struct tree_link in_owners; /* of owners with evictable leaves, ordered by blocks in memory */
    struct prefix_state_list states[PREFIX_TIERS];
    struct tree hosts;         /* slots that can be taken from it, by last use */
    struct tree_link in_hosts; /* of prefix_hosts.owners */
};

struct prefix {
    struct kv_pool *pool;
    struct prefix_window_group windows[PREFIX_WINDOWS]; /* [n_windows] groups 1, 2, … */
    uint32_t n_windows;
    uint64_t window_passes; /* calls of prefix_window_evict */
    struct prefix_states states;
    struct prefix_hosts hosts;
    prefix_hash_fn hash;
    uint64_t seed, random;
    uint64_t high, low;                       /* the next id */
    uint64_t clock;                           /* uses so far */
    struct table full, ids, namespaces, uids; /* of full nodes, all nodes, roots, owners */
    struct tree owners;                       /* with evictable leaves, by blocks in memory */
    struct tree write; /* nodes in memory to write to disk: not being written, parent on disk or a root; by last use */
    struct tree disk;  /* unpinned nodes on disk without children on disk, by last use */
    struct prefix_stats stats;
    uint64_t evictable; /* blocks in memory without pins */
    uint64_t *ghosts;   /* [ghost_mask + 1] hashes of evicted full nodes. The low bits of a hash select the slot; the
                         * slot stores the use count in their place. A newer ghost overwrites an older one. */
    uint64_t ghost_mask;
    uint32_t learn_from; /* PREFIX_LEARN_BLOCKS; a test sets another number */
};

#define NODE_OF(link, member) ((struct prefix_node *)((char *)(link)-offsetof(struct prefix_node, member)))

/* The node's slot in host memory, or KV_NO_BLOCK. */
static inline uint32_t prefix_host_slot(const struct prefix_node *n)
{
    return n->host ? n->host->slot : KV_NO_BLOCK;
}

/* The node's slot has its block in group 0. */
static inline bool prefix_node_on_host(const struct prefix_node *n)
{
    return n->host && !(n->host->lacks & 1);
}

/* The node is in memory or in host memory. */
static inline bool prefix_node_at_hand(const struct prefix_node *n)
{
    return n->block != KV_NO_BLOCK || prefix_node_on_host(n);
}

static inline bool prefix_node_readable(const struct prefix_node *n)
{
    return prefix_node_at_hand(n) || n->on_disk;
}

/* The tokens of the node. */
static inline struct items prefix_node_items(const struct prefix_node *n)
{
    return (struct items){.ids = n->tokens, .n = n->n, .runs = n->runs, .n_runs = n->n_runs};
}

/* --- prefix-children.c: the children of a node --- */

/* The hash of all tokens from the root to the first 32 of @t, which follow @parent. */
uint64_t prefix_children_hash(const struct prefix *p, const struct prefix_node *parent, const struct items *t);
/* The full child of @parent with the first 32 tokens of @t; NULL: none. @hash is their prefix_children_hash. */
struct prefix_node *prefix_children_full(const struct prefix *p, const struct prefix_node *parent,
                                         const struct items *t, uint64_t hash);
/* Computes the hashes of the next full blocks of @t, at most PREFIX_PREFETCH, and prefetches their nodes, so that the
 * cache misses of a lookup overlap. A hash depends on tokens only, so that the nodes need not be known. Returns the
 * number of hashes. */
uint32_t prefix_children_prefetch(const struct prefix *p, const struct prefix_node *parent, const struct items *t,
                                  uint64_t hashes[PREFIX_PREFETCH]);

/* Of the children with one of the bits in @mask, the one that shares the longest beginning with @t;
 * *common is its length. NULL: no child shares a token, and *common is 0. */
struct prefix_node *prefix_children_nearest(const struct prefix_node *parent, const struct items *t, uint8_t mask,
                                            uint32_t *common);
/* The child with exactly @t; NULL: none. */
struct prefix_node *prefix_children_exact(const struct prefix_node *parent, const struct items *t);
/* A child in memory that begins with @t and has more; NULL: none. */
struct prefix_node *prefix_children_longer(const struct prefix_node *parent, const struct items *t);
/* The longest child that @t begins with and has more tokens than; NULL: none. */
struct prefix_node *prefix_children_shorter(const struct prefix_node *parent, const struct items *t);
void prefix_children_insert(struct prefix_node *parent, struct prefix_node *child);

/* --- prefix-node.c: making, changing and freeing nodes --- */

uint64_t prefix_root_hash(const struct prefix *p, const struct prefix_namespace *ns);
/* The root of the namespace; NULL: none. */
struct prefix_node *prefix_root_find(const struct prefix *p, const struct prefix_namespace *ns);
/* Finds the root or makes it. NULL: no memory. prefix_node_prune frees a root without children. */
struct prefix_node *prefix_root_make(struct prefix *p, const struct prefix_namespace *ns);
struct prefix_node *prefix_by_id(const struct prefix *p, struct prefix_id id);
struct prefix_owner *prefix_owner_find(const struct prefix *p, uid_t uid);

/* Makes a child of @parent that is neither in memory nor on disk. The index owns it. NULL: no memory, and nothing has
 * changed but that @uid may have an owner now. */
struct prefix_node *prefix_node_make(struct prefix *p, struct prefix_node *parent, struct prefix_id id,
                                     const struct items *t, uid_t uid);
/* Frees @n, and then each ancestor, as long as the node has no children, no pins, no block, no file and no write. */
void prefix_node_prune(struct prefix *p, struct prefix_node *n);

/* Moves the node into the queues that its state asks for, and out of the others. */
void prefix_node_requeue(struct prefix *p, struct prefix_node *n);
/* Updates the bits by which the parent finds the node. */
void prefix_node_set_bits(struct prefix_node *n);
/* The groups in which the node has a block in memory, a bit for each. */
uint8_t prefix_node_in_memory(const struct prefix_node *n);
/* The groups with a window whose blocks are neither in memory nor in host memory, a bit for each. */
uint8_t prefix_node_lacks(const struct prefix_node *n);
/* Puts a node without a block into memory; takes a reference on @block. */
void prefix_node_attach_block(struct prefix *p, struct prefix_node *n, uint32_t block);
/* Takes a node without pins and without a state in memory out of memory; removes the references on its blocks. */
void prefix_node_detach_block(struct prefix *p, struct prefix_node *n);
void prefix_node_set_disk(struct prefix *p, struct prefix_node *n, bool on_disk);
/* Removes a covered node that is neither pinned nor a tail from memory and host memory, and prunes it. Other nodes do
 * not change. */
void prefix_node_drop_covered(struct prefix *p, struct prefix_node *n);

/* Calls @on_evict for a node at hand that is not being written, and marks the node if it is written from now on. */
void prefix_node_offer(struct prefix_node *n, prefix_evict_fn on_evict, void *ctx);

/* Remembers the hash and the use count of a full node that is evicted and has no file. */
void prefix_ghost_add(struct prefix *p, const struct prefix_node *n);
/* The use count of the evicted node with @hash; 0: it is unknown or forgotten. */
uint8_t prefix_ghost_uses(const struct prefix *p, uint64_t hash);

/* --- prefix-window.c, prefix-keep.c: blocks of groups with a window --- */

/* Sets up the windows of a node that is being made. */
void prefix_window_init(const struct prefix *p, struct prefix_node *n);
/* The groups with a window in which the node has no block, a bit for each. */
uint8_t prefix_window_lacks(const struct prefix_node *n);
/* The node in memory can be written to disk: it has no file, or one that lacks blocks which the node has, while nobody
 * can be reading it. */
bool prefix_window_writes(const struct prefix_node *n);
/* Removes the index's reference on a node's block in window @i. */
void prefix_window_drop(struct prefix *p, uint32_t i, struct prefix_window *w);
/* Removes those on all blocks of the node in groups with a window. */
void prefix_window_detach(struct prefix *p, struct prefix_node *n);
/* The blocks that a token after @n sees are the most recently used ones. */
void prefix_window_touch(struct prefix *p, struct prefix_node *n);
/* The last of @end and its ancestors whose tokens can be continued in all groups, with blocks in memory, or @disk: also
 * with those in files; NULL: none. *n: the tokens up to and with @end; becomes those of the result. */
struct prefix_node *prefix_window_fit(const struct prefix *p, struct prefix_node *end, uint32_t *n, bool disk);
/* The node has its blocks in all groups, as above. */
bool prefix_window_has_all(const struct prefix_node *n, bool disk);
void prefix_window_fini(struct prefix *p);

/* --- prefix-state.c, prefix-state-evict.c: recurrent states --- */

/* Sets up the state of a node that is being made, at @state behind it. @priority is any random number. */
void prefix_state_init(struct prefix_node *n, struct prefix_state *state, uint32_t priority);
/* The node's state is in memory or host memory. */
static inline bool prefix_state_at_hand(const struct prefix_node *n)
{
    return prefix_state_block(n) != KV_NO_BLOCK || prefix_state_slot(n) != KV_NO_BLOCK;
}
/* The same, or it is on disk. */
static inline bool prefix_state_readable(const struct prefix_node *n)
{
    return prefix_state_at_hand(n) || prefix_state_on_disk(n);
}
/* The node's state is on disk or is being written, so that the node stays. */
static inline bool prefix_state_filed(const struct prefix_node *n)
{
    return n->state && (n->state->on_disk || n->state->writing);
}
/* Moves the state into the queues that the node and the state ask for, and out of the others. */
void prefix_state_requeue(struct prefix *p, struct prefix_node *n);
/* The state is in this tier from now on, as its owner's most recently used one; it is in no other. Takes over the
 * reference on @block. */
void prefix_state_put(struct prefix *p, struct prefix_state *s, enum prefix_tier tier, uint32_t block);
/* Removes the state from the tier, if it is in it. */
void prefix_state_take(struct prefix *p, struct prefix_state *s, enum prefix_tier tier);
/* Shortens the match to one that ends with a state; @end is the last full node that is readable, @n tokens from the
 * root. */
void prefix_state_fit(struct prefix_match *m, struct prefix_node *end, uint32_t n);
/* The node's state leaves memory, @alone or with its node, whose KV may be in host memory already: it is kept there
 * too, or may be written to disk. */
void prefix_state_leave(struct prefix *p, struct prefix_node *n, bool alone);
/* Frees the slot of the node's state if the node has no KV any more, and will have none. */
void prefix_state_forget(struct prefix *p, struct prefix_node *n);

/* --- prefix-host.c: nodes in host memory --- */

/* Sets up the slot of a node that is being made, at @host behind it. @priority is any random number. */
void prefix_host_init(struct prefix_node *n, struct prefix_host *host, uint32_t priority);
/* Moves the node into the queue that its state asks for, or out of it. */
void prefix_host_requeue(struct prefix *p, struct prefix_node *n);
/* Blocks of the node are about to leave memory, those of the groups in @groups, a bit for each: copies them to its
 * slot. For a slot, another node may lose its own. False: they are not there. */
bool prefix_host_keep(struct prefix *p, struct prefix_node *n, uint8_t groups);
/* Blocks of the node are in memory now: its slot lacks them. */
void prefix_host_lose(struct prefix *p, struct prefix_node *n, uint8_t groups);
/* Frees the node's slot, if it has one. */
void prefix_host_drop(struct prefix *p, struct prefix_node *n);

/* --- prefix-score.c: the eviction scores of an owner's leaves --- */

/* The owner's queue for a leaf. */
static inline uint32_t prefix_queue(const struct prefix_node *n)
{
    return n->tails ? PREFIX_TAILS : eviction_score_class(n->uses);
}

/* Counts a use of @n, which is in memory or will be in the same call of the index. */
void prefix_score_use(struct prefix *p, struct prefix_node *n);
/* Frees the scores of an owner that has too few blocks. */
void prefix_score_trim(const struct prefix *p, struct prefix_owner *o);
/* The owner's leaf to evict first; the owner must have a leaf. */
struct prefix_node *prefix_score_lowest(const struct prefix_owner *o);

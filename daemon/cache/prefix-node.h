/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Inside the prefix index. Every space has a root, a node without tokens, so that every node has a parent. What a node
 * is in follows from what it is: whoever changes that calls prefix_node_settle, which puts it into the orders it
 * belongs to and takes it out of the others, and prefix_node_collect, which frees what stands for nothing any more.
 *
 * Always true: a node in memory has a parent in memory (or a root); a partial one has no children; one that neither
 * holds nor marks keep is not the beginning of a sibling in memory.
 */
#include "daemon/cache/prefix-table.h"
#include "daemon/cache/prefix-tree.h"
#include "daemon/cache/prefix.h"
#include "daemon/cache/worth.h"

enum { IN_MEMORY = 1, ON_DISK = 2, A_PLACE = 4 }; /* bits of prefix_node.in_kin */
#define PREFIX_AHEAD   8
#define PREFIX_USES    7   /* more are not counted: they fit into the low bits of a hash */
#define PREFIX_LEARN   256 /* blocks in memory from which on a uid's uses are learned from (sizeof(struct worth)) */
#define PREFIX_UNLEARN 4   /* with so much less than that it is forgotten */
#define PREFIX_TAILS   WORTH_CLASSES
#define PREFIX_QUEUES  (WORTH_CLASSES + 1)
#define READABLE       (IN_MEMORY | ON_DISK)
#define ANY_CHILD      (IN_MEMORY | ON_DISK | A_PLACE)

struct prefix_node {
    struct table_link
        by_place; /* full nodes in prefix.full, roots in prefix.spaces; hash: of all tokens from the root on */
    struct prefix_node *parent; /* NULL: a root */
    struct prefix_root *root;
    uint64_t used;  /* the clock then */
    uint64_t since; /* its owner's clock then */
    uint32_t block; /* or PREFIX_NO_BLOCK */
    uint32_t pins;  /* its own holds, and its children with pins */
    uint32_t children_memory, children_disk;
    uint8_t n, uses; /* uses: requests that made or found it, as far as is known; at most PREFIX_USES */
    bool on_disk, writing;
    bool listed; /* in one of the orders below */
    int32_t tokens[PREFIX_BLOCK];

    uint32_t holds, tails, children;
    struct prefix_owner *owner; /* NULL: a root */
    struct prefix_id id;
    struct table_link by_id;
    struct tree kin;         /* children, by tokens */
    struct tree_link in_kin; /* of the parent */
    struct tree_link in_evict, in_write, in_disk;
};

struct prefix_root {
    struct prefix_node node;
    struct prefix_space space;
};

/* A uid. It stays when it has nothing any more: its evictions are still told. */
struct prefix_owner {
    struct table_link by_uid;
    uid_t uid;
    struct prefix_sum sum;
    uint64_t clock;                   /* blocks added, requests that began with one of its blocks */
    struct worth *worth;              /* what is learned; NULL: it has too few blocks */
    struct tree evict[PREFIX_QUEUES]; /* leaves that may go, by last use; one tree a class of uses, one for tails */
    struct tree_link in_owners;       /* there are such leaves; by blocks in memory */
};

struct prefix {
    struct kv_pool *pool;
    prefix_hash_fn hash;
    uint64_t seed, random;
    uint64_t high, low; /* of the next id */
    uint64_t clock;     /* uses so far */
    struct table full, ids, spaces, uids;
    struct tree owners, write, disk;
    struct prefix_sum sum;
    uint64_t evictable; /* blocks in memory without pins */
    uint64_t *given_up; /* [given_mask + 1] hashes of full nodes that were, uses in place of the low bits (which are
                         * the slot's); a later one may take a slot */
    uint64_t given_mask;
    uint32_t learn_from; /* PREFIX_LEARN */
};

#define NODE_OF(link, member) ((struct prefix_node *)((char *)(link)-offsetof(struct prefix_node, member)))

static inline bool prefix_node_readable(const struct prefix_node *n)
{
    return n->block != PREFIX_NO_BLOCK || n->on_disk;
}

/* --- prefix-kin.c: the children of a node --- */

/* The full child of @parent with these 32 tokens; NULL. @hash: prefix_kin_hash of them. */
struct prefix_node *prefix_kin_full(const struct prefix *p, const struct prefix_node *parent, const int32_t *tokens,
                                    uint64_t hash);
uint64_t prefix_kin_hash(const struct prefix *p, const struct prefix_node *parent, const int32_t *tokens);
/* The hashes of the next full blocks of tokens[n], as many as there are up to PREFIX_AHEAD, and memory told that they
 * are wanted: no node need be known for the hashes behind it, and each would be a cache miss of its own. */
uint32_t prefix_kin_ahead(const struct prefix *p, const struct prefix_node *parent, const int32_t *tokens, uint32_t n,
                          uint64_t hashes[PREFIX_AHEAD]);

/* Of the children with one of the bits @mask (0: all) the one that agrees with most of tokens[n], 1 <= n <= 32, and in
 * how many; NULL: none agrees in one. */
struct prefix_node *prefix_kin_nearest(const struct prefix_node *parent, const int32_t *tokens, uint32_t n,
                                       uint8_t mask, uint32_t *common);
/* The child with exactly these tokens; NULL. */
struct prefix_node *prefix_kin_exact(const struct prefix_node *parent, const int32_t *tokens, uint32_t n);
/* A child in memory that begins with tokens[n] and has more; NULL. */
struct prefix_node *prefix_kin_longer(const struct prefix_node *parent, const int32_t *tokens, uint32_t n);
/* The longest child that is a beginning of tokens[n] and has less than @n; NULL. */
struct prefix_node *prefix_kin_shorter(const struct prefix_node *parent, const int32_t *tokens, uint32_t n);
void prefix_kin_insert(struct prefix_node *parent, struct prefix_node *child);

/* --- prefix-node.c: making, changing and freeing nodes --- */

uint64_t prefix_root_hash(const struct prefix *p, const struct prefix_space *space);
/* The root of @space, or NULL. */
struct prefix_node *prefix_root_find(const struct prefix *p, const struct prefix_space *space);
/* Make it when it is missing; NULL: no memory. Without children it goes with the next prefix_node_collect. */
struct prefix_node *prefix_root_make(struct prefix *p, const struct prefix_space *space);
struct prefix_node *prefix_by_id(const struct prefix *p, struct prefix_id id);
struct prefix_owner *prefix_owner_find(const struct prefix *p, uid_t uid);

/* A new child of @parent, nowhere yet. NULL: no memory, and nothing has changed. */
struct prefix_node *prefix_node_make(struct prefix *p, struct prefix_node *parent, struct prefix_id id,
                                     const int32_t *tokens, uint32_t n, uid_t uid);
/* Free @n and then what is before it, as far as it stands for nothing. */
void prefix_node_collect(struct prefix *p, struct prefix_node *n);

void prefix_node_settle(struct prefix *p, struct prefix_node *n);
/* @n has no block. Takes a reference on @block. */
void prefix_node_enter(struct prefix *p, struct prefix_node *n, uint32_t block);
/* @n has one; gives the reference back. */
void prefix_node_leave(struct prefix *p, struct prefix_node *n);
void prefix_node_set_disk(struct prefix *p, struct prefix_node *n, bool on_disk);
/* Remember that the place of @n was filled once. */
void prefix_node_given_up(struct prefix *p, const struct prefix_node *n);
/* The uses of the node that was at the place with @hash; 0: there was none, or it is forgotten. */
uint8_t prefix_node_was(const struct prefix *p, uint64_t hash);
/* A partial node that nothing keeps gives up its block when a sibling in memory begins with it. */
void prefix_node_subsume(struct prefix *p, struct prefix_node *n);

/* --- prefix-worth.c: what an owner's leaves are worth --- */

/* Which of its owner's queues a leaf is in. */
static inline uint32_t prefix_queue(const struct prefix_node *n)
{
    return n->tails ? PREFIX_TAILS : worth_class(n->uses);
}

/* One more use of @n, which is in memory or about to be. */
void prefix_worth_used(struct prefix *p, struct prefix_node *n);
/* The owner may have too few blocks now. */
void prefix_worth_settle(const struct prefix *p, struct prefix_owner *o);
/* The leaf that goes first; @o has one. */
struct prefix_node *prefix_worth_least(const struct prefix_owner *o);

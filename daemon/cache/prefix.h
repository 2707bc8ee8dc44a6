/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The prefix index: which KV blocks hold the K and V of which tokens. A node stands for up to 32 tokens behind those of
 * its parent; a full node never changes, a partial one (a sequence's last block) is only copied from. A full child is
 * found by a hash of (parent's id, tokens) and proved by comparing the tokens; the partial match behind the last full
 * one is the longest beginning that any child shares. Not locked: it belongs to the engine thread.
 *
 * A node's block is in memory, on disk, in both, or in neither (it then only keeps the place of its children, and can
 * be filled again). The index holds one reference of the pool on each block in memory. Who uses a node holds it, which
 * keeps it and all nodes before it where they are. What nobody holds is evicted leaf first (a leaf: no child in
 * memory): from the uid that has most blocks in memory, of its leaves the one that is worth least, and its live
 * sessions' tails, the least recently used first, after its other leaves. (Not after everybody's: a tail keeps all that
 * is before it, so that one uid's sessions could take the memory of all.)
 *
 * What a leaf is worth (worth.h) is learned uid by uid, on a clock of its own uses: what one does changes when another
 * has to give something up, as it must, and not which block. (But for this: how often a block was used is still known
 * when it comes back, until as many others were given up, anybody's. That tells no more than PREFIX_EVICTED does.) A
 * uid with few blocks costs no memory for it; its least recently used leaf goes. A restart forgets it all.
 *
 * A node in memory has a parent in memory. A partial node in memory that is a beginning of a sibling in memory goes as
 * soon as nobody holds it and it is no tail; its file, if there is one, is then the first that disk_victim names.
 */
#include "daemon/cache/kv_pool.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PREFIX_BLOCK    32         /* tokens of a full node: the kernels' KV_BLOCK */
#define PREFIX_NO_BLOCK UINT32_MAX /* not in memory */

struct prefix;
struct prefix_node;

/* Who may find a node, and for which model and KV: space.h makes it. */
struct prefix_space {
    uint8_t bytes[16];
};

/* Of a node; never used twice, in this process or another. All zero: the root of a space. */
struct prefix_id {
    uint64_t high, low;
};

/* What there is to know of a node; a copy. */
struct prefix_info {
    struct prefix_id id, parent;
    struct prefix_space space;
    uid_t uid; /* whose memory and disk it is charged to: who computed it first */
    uint32_t n;
    int32_t tokens[PREFIX_BLOCK];
    uint32_t block; /* or PREFIX_NO_BLOCK */
    uint64_t used;  /* when it was last, to be compared with others'; not on disk */
    bool on_disk;
};

typedef uint64_t (*prefix_hash_fn)(const void *bytes, size_t len, uint64_t seed);

/* @pool outlives the index. @hash: NULL for XXH3 (seeded at random); a test passes one that always collides, and gets
 * the same from the same calls (but for the ids). 0, -ENOMEM, -errno of getrandom. */
int prefix_new(struct prefix **out, struct kv_pool *pool, prefix_hash_fn hash);
struct prefix *
prefix_free(struct prefix *p); /* gives its blocks back; NULL ok, returns NULL; asserts nothing is held */

/* --- reading --- */

enum prefix_miss {
    PREFIX_ALL,     /* nothing was missed */
    PREFIX_NEW,     /* what follows was never here */
    PREFIX_EVICTED, /* it was, and was given up */
};

struct prefix_match {
    struct prefix_node *node;    /* the last full node in memory from the root on; NULL: none */
    uint32_t n;                  /* tokens up to and with it, a multiple of 32 */
    struct prefix_node *partial; /* a node in memory behind it whose first @n_partial tokens agree; NULL: none */
    uint32_t n_partial;          /* 1 … 31: a whole one would be @node */
    uint32_t n_disk;             /* tokens behind @n that could be read from disk (then more than n_partial); else 0 */
    enum prefix_miss miss;       /* why n + max(n_partial, n_disk) is less than what was asked for; as far as it is
                                  * still known: of the last evictions only, and of full blocks */
};

/* The longest beginning of tokens[n] that @space has. Nothing is changed and nothing held: what is found stays until
 * the next call that may evict or remove. */
void prefix_find(const struct prefix *p, const struct prefix_space *space, const int32_t *tokens, uint32_t n,
                 struct prefix_match *out);

/* The child of @parent (NULL: the root of @space), in memory or on disk, that agrees with the most of tokens[n]: in
 * *common tokens, which may be less than its own. NULL: none agrees in one (*common is 0 then). */
struct prefix_node *prefix_child(const struct prefix *p, const struct prefix_space *space,
                                 const struct prefix_node *parent, const int32_t *tokens, uint32_t n, uint32_t *common);
struct prefix_node *prefix_parent(const struct prefix_node *n); /* NULL: the root of its space */
uint32_t prefix_block(const struct prefix_node *n);
void prefix_info(const struct prefix_node *n, struct prefix_info *out);

/* Used now: moves it and all before it to the young end. It costs a step for each of them: for the end of a request,
 * and for one that begins again after it was interrupted. */
void prefix_touch(struct prefix *p, struct prefix_node *n);
/* The same, by a request that begins with it: the uses of each are counted, and learned from. */
void prefix_use(struct prefix *p, struct prefix_node *n);

/* --- holding and adding --- */

void prefix_hold(struct prefix *p, struct prefix_node *n);
void prefix_drop(struct prefix *p, struct prefix_node *n); /* may free @n: it stands for nothing, or is a beginning */

/*
 * tokens[n] (1 … 32) behind @parent (NULL: root) are computed in @block, which the caller has a reference on; the index
 * takes one of its own, and @uid is charged. 0 and *out: a new node, or one that was not in memory and is now. 1 and
 * *out: there is an equal one in memory already, @block is not taken (the caller may use prefix_block(*out) in its
 * place). A partial node that is a beginning of the new one and that nobody holds goes; one that is a beginning of an
 * existing node in memory is not added: also 1, with the longer one. -ENOMEM, and nothing has changed. @parent must be
 * full, in memory and held, or be NULL. *out is used now (those before it are not touched) and not held.
 */
int prefix_add(struct prefix *p, const struct prefix_space *space, struct prefix_node *parent, const int32_t *tokens,
               uint32_t n, uint32_t block, uid_t uid, struct prefix_node **out);

/* Live session's tail, counted: evicted after all of its uid that are not. By id, as the node may be gone meanwhile
 * (nothing happens then; nor when @tail is false and it is not marked). */
void prefix_mark_tail(struct prefix *p, struct prefix_id id, bool tail);

/* --- giving up memory --- */

/* Called for a node whose block is about to leave memory, while the block still holds its data; not for one that is
 * being written already. True: a copy of the data is going to disk, and the node stays until prefix_stored or
 * prefix_not_stored (means nothing for one that is on disk). It must not call the index. */
typedef bool (*prefix_leave_fn)(void *ctx, const struct prefix_info *info);

/* Evict up to @blocks blocks; how many were. They are the index's references: a block that a table still refers to is
 * not free then. @leave may be NULL. */
uint32_t prefix_evict(struct prefix *p, uint32_t blocks, prefix_leave_fn leave, void *ctx);
/* Blocks that prefix_evict could give now, O(1). */
uint32_t prefix_evictable(const struct prefix *p);

/* --- the disk tier; the files are disk.h's --- */

/* A file that an earlier process has left. 0; 1: its parent is not known (yet); -EEXIST: there is another one for the
 * same place, or with its id; -EBADMSG: it cannot be (its length, a partial parent, one in another space); -ENOMEM. The
 * order of calls is the order of last use; @info's block and on_disk are not looked at. */
int prefix_adopt(struct prefix *p, const struct prefix_info *info);
/* A block that is in memory and not on disk, whose parent is the root or on disk, and that was
 * last used before the last @young uses of any node (a touch, an addition, an adoption): the least recently used of
 * them, or the most with @newest. False: none. The node is marked as being written, and stays even when its block
 * leaves memory, until prefix_stored or prefix_not_stored; its block is only sure to stay when it is held. */
bool prefix_to_write(struct prefix *p, bool newest, uint64_t young, struct prefix_info *out);
void prefix_stored(struct prefix *p, struct prefix_id id);     /* it is on disk now; unknown: nothing happens */
void prefix_not_stored(struct prefix *p, struct prefix_id id); /* it could not be written */
/* The least recently used node on disk that has no child on disk and is not held: its file may go. False: none. */
bool prefix_disk_victim(struct prefix *p, struct prefix_info *out);
/* The file of @id is gone, or never was good. Nodes behind it that are on disk stay, and can be read again once it is
 * filled again. */
void prefix_lost(struct prefix *p, struct prefix_id id);

/* --- sums --- */

struct prefix_sum {
    uint64_t nodes, blocks_memory, blocks_disk, evictions;
};

void prefix_count(const struct prefix *p, uid_t uid, struct prefix_sum *out); /* (uid_t)-1: of all */

/* Recompute everything from the nodes and compare with what is kept; asserts. For tests. */
void prefix_check(const struct prefix *p);

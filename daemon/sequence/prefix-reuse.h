/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A sequence and the prefix cache: which of its tokens were computed before, and how the blocks that it computes get
 * into the index, so that others find them. Engine thread only.
 */
#include "daemon/cache/cache.h"
#include <stdbool.h>

struct seq;

#define REUSE_ANCHORS 8

/* A depth at which others, or a later turn, are likely to continue: the groups with a window keep what that needs. */
struct reuse_anchor {
    uint32_t n; /* items */
    enum prefix_keep keep;
};

/* A fetch for several groups (fetch-blocks.c): the items up to @target have KV, in memory or on disk, and can be
 * continued there, but not where the fetch is now. */
struct reuse_far {
    uint32_t target;          /* 0: there is none */
    uint32_t fetched;         /* whole blocks up to here are in the tables, or none is needed */
    struct prefix_node *node; /* of the last of them; held */
    bool failed;              /* the disk cannot be read: no other fetch begins */
};

/* Part of a sequence. */
struct reuse {
    struct prefix_namespace namespace; /* its owner's namespace */
    bool alone;                        /* none of its blocks is found or indexed */
    bool off;                          /* blocks it computes from now on are not indexed */
    bool began; /* it had blocks before: what it finds after a preemption is not counted as a use */
    struct prefix_node *indexed_node; /* of its last whole block that is indexed; held. NULL: none */
    uint32_t indexed;                 /* tokens up to the end of that block */
    uint32_t until; /* with recurrent layers: the tokens whose state is fetched; 0: it is in memory, or there is none */
    bool no_fetch;  /* the state could not be fetched; none is from now on */
    enum prefix_miss miss;                      /* why no more was found when it began */
    struct prefix_id tail;                      /* of its last block when it was preempted */
    struct reuse_anchor anchors[REUSE_ANCHORS]; /* [n_anchors] */
    uint32_t n_anchors;
    struct reuse_far far;
};

/* Tokens of @s that the cache has, if it started now. */
uint32_t reuse_known(const struct kv_cache *c, const struct seq *s);

/* Whole blocks at the beginning of @s that a running sibling has, so that they cost no memory. */
uint32_t reuse_shared(const struct seq *s);

/*
 * Give @s its blocks: cached ones for its first tokens, and free ones for all other positions it may need, evicting
 * unused blocks if necessary. 0: s->kv.n_tokens of its tokens are computed; 1: there is no room now, nothing changed;
 * -ENOMEM.
 */
int reuse_begin(struct kv_cache *c, struct seq *s);

/* @s will be continued, by itself or others, after its first @n items. Nothing happens if there is one group. */
void reuse_anchor(struct seq *s, uint32_t n, enum prefix_keep keep);

/* More tokens of @s are computed: index the blocks that became whole. */
void reuse_advance(struct kv_cache *c, struct seq *s);

/* Index what @s has computed, its last partial block too, and give all blocks back. Returns the id of its last node;
 * zero: it has none. */
struct prefix_id reuse_end(struct kv_cache *c, struct seq *s);

/* With several groups: memory and disk together have more than @s has, so that it can continue at far.target; far.node
 * is held until reuse_end_far. */
bool reuse_aim(struct kv_cache *c, struct seq *s);
void reuse_end_far(struct kv_cache *c, struct seq *s);
/* Give the blocks of @s back; nothing of them is indexed any more. */
void reuse_drop(struct kv_cache *c, struct seq *s);
/* Give the blocks of @s back and begin again. As reuse_begin, but with 1 and on an error @s has no blocks. */
int reuse_again(struct kv_cache *c, struct seq *s);

/* The node after @after (NULL: the first) that agrees with the tokens of @s from @from on and is not in memory, but in
 * host memory or on disk; *n: the number of tokens that agree. NULL: there is none, or reading it would not help. */
struct prefix_node *reuse_below(const struct kv_cache *c, const struct seq *s, const struct prefix_node *after,
                                uint32_t from, uint32_t *n);

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A sequence and the prefix cache: which of its tokens were computed before, and how the blocks that it computes get
 * into the index, so that others find them. Engine thread only.
 */
#include "daemon/cache/cache.h"
#include <stdbool.h>

struct seq;

/* Part of a sequence. */
struct reuse {
    struct prefix_namespace namespace; /* its owner's namespace */
    bool off;                          /* blocks it computes from now on are not indexed */
    bool began; /* it had blocks before: what it finds after a preemption is not counted as a use */
    struct prefix_node *indexed_node; /* of its last whole block that is indexed; held. NULL: none */
    uint32_t indexed;                 /* tokens up to the end of that block */
    enum prefix_miss miss;            /* why no more was found when it began */
    struct prefix_id tail;            /* of its last block when it was preempted */
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

/* More tokens of @s are computed: index the blocks that became whole. */
void reuse_advance(struct kv_cache *c, struct seq *s);

/* Index what @s has computed, its last partial block too, and give all blocks back. Returns the id of its last node;
 * zero: it has none. */
struct prefix_id reuse_end(struct kv_cache *c, struct seq *s);

/* The node after @after (NULL: the first) that agrees with the tokens of @s from @from on and is on disk only; *n: the
 * number of tokens that agree. NULL: there is none, or reading it would not help. */
struct prefix_node *reuse_on_disk(const struct kv_cache *c, const struct seq *s, const struct prefix_node *after,
                                  uint32_t from, uint32_t *n);

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A sequence and the prefix cache: what of its tokens was computed before, and where what it computes goes, so that
 * others find it. Engine thread only.
 */
#include "daemon/cache/kv_table.h"
#include "daemon/cache/prefix.h"
#include <stdbool.h>

struct engine;
struct seq;

/* Of a sequence. */
struct reuse {
    struct prefix_space space;
    bool off;                 /* what it computes from now on is not kept */
    bool began;               /* once: what it finds when it begins again after an interruption is no new use */
    struct prefix_node *seat; /* the last of its whole blocks that the index has; held. NULL: none */
    uint32_t indexed;         /* tokens up to and with it */
};

/* How many of its tokens need not be computed, were it to begin now. */
uint32_t reuse_known(const struct engine *e, const struct seq *s);

/* Whole blocks of its beginning that another answer to the same prompt has, so that they cost nothing. */
uint32_t reuse_shared(const struct seq *s);

/*
 * Give @s its blocks: those that the cache has of its first tokens, and fresh ones for all the positions it may come to
 * need; blocks that nobody uses are evicted for them. 0, and s->kv.n_tokens of its tokens are computed; 1: there is no
 * room now, nothing changed; -ENOMEM.
 */
int reuse_begin(struct engine *e, struct seq *s);

/* More of its tokens are computed: what became a whole block goes into the index. */
void reuse_advance(struct engine *e, struct seq *s);

/* Give its blocks back. The last, partial one is kept in the index too. The id of the last node; zero: there is none.
 */
struct prefix_id reuse_end(struct engine *e, struct seq *s);

/* The node behind @after (NULL: the first of all) that agrees with its tokens from @from on and is on disk only; *n:
 * how many agree. NULL: there is none, or it would not help. */
struct prefix_node *reuse_on_disk(const struct engine *e, const struct seq *s, const struct prefix_node *after,
                                  uint32_t from, uint32_t *n);

/* Evict until @blocks are free; false: that cannot be had. */
bool reuse_make_room(struct engine *e, uint32_t blocks);

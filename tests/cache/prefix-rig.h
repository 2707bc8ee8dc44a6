/* SPDX-License-Identifier: MIT */
#pragma once
/* An index over a pool, and short words for what tests do with it. Failures are cmocka's. */
#include "daemon/cache/prefix.h"

struct prefix_rig {
    struct kv_pool *pool;
    struct prefix *p;
    struct prefix_space space;
};

void prefix_rig_init(struct prefix_rig *r, uint32_t blocks);
void prefix_rig_fini(struct prefix_rig *r); /* checks that all blocks are free then */

/* @n tokens that are all @token, in one block behind @parent; the index alone refers to the block then. What prefix_add
 * says. */
int prefix_rig_add(struct prefix_rig *r, struct prefix_node *parent, int32_t token, uint32_t n, uid_t uid,
                   struct prefix_node **out);
int prefix_rig_add_tokens(struct prefix_rig *r, struct prefix_node *parent, const int32_t *tokens, uint32_t n,
                          uid_t uid, struct prefix_node **out);

struct prefix_id prefix_rig_id(const struct prefix_node *n);

/* What is found of @n tokens. */
struct prefix_match prefix_rig_find(const struct prefix_rig *r, const int32_t *tokens, uint32_t n);

/* Fill tokens[n] with @token. */
void prefix_rig_fill(int32_t *tokens, uint32_t n, int32_t token);

/* prefix_evict one block; the id of what left, all zero when nothing did. @write: what leave() answers. */
struct prefix_id prefix_rig_evict(struct prefix_rig *r, bool write);

static inline bool prefix_id_equal(struct prefix_id a, struct prefix_id b)
{
    return a.high == b.high && a.low == b.low;
}

/* SPDX-License-Identifier: MIT */
#pragma once
/* An index over a pool, with helpers for tests. A failure is a cmocka failure. */
#include "daemon/cache/prefix/prefix.h"

struct fixture {
    struct kv_pool *pool;
    struct prefix *p;
    struct prefix_namespace namespace;
};

void fixture_init(struct fixture *r, uint32_t blocks);
void fixture_fini(struct fixture *r); /* checks that all blocks are free afterwards */

/* Adds @n tokens, all equal to @token, as a child of @parent. Only the index refers to the block afterwards. Returns
 * the result of prefix_add. */
int fixture_add(struct fixture *r, struct prefix_node *parent, int32_t token, uint32_t n, uid_t uid,
                struct prefix_node **out);
int fixture_add_tokens(struct fixture *r, struct prefix_node *parent, const int32_t *tokens, uint32_t n, uid_t uid,
                       struct prefix_node **out);

struct prefix_id fixture_id(const struct prefix_node *n);

/* The match of tokens[n]. */
struct prefix_match fixture_find(const struct fixture *r, const int32_t *tokens, uint32_t n);

/* Fills tokens[n] with @token. */
void fixture_fill(int32_t *tokens, uint32_t n, int32_t token);

/* Evicts one block. Returns the id of its node, all zero: none. @write is the result of the callback. */
struct prefix_id fixture_evict(struct fixture *r, bool write);

static inline bool prefix_id_equal(struct prefix_id a, struct prefix_id b)
{
    return a.high == b.high && a.low == b.low;
}

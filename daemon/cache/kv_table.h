/* SPDX-License-Identifier: MIT */
#pragma once
/* The block table of one sequence: positions 0 … n_tokens-1, 32 to a block. Holds one reference on each block. */
#include "daemon/cache/kv_pool.h"

#define KV_TABLE_BLOCK 32         /* tokens of a block: the kernels' KV_BLOCK */
#define KV_TABLE_HOLE  UINT32_MAX /* in place of a block that is no longer needed */

struct kv_table {
    uint32_t *ids; /* [n_blocks] */
    uint32_t n_blocks, cap;
    uint32_t n_tokens; /* whose K and V are computed */
};

/* Blocks that hold @tokens tokens. */
static inline uint32_t kv_table_blocks(uint32_t tokens)
{
    return tokens / KV_TABLE_BLOCK + (tokens % KV_TABLE_BLOCK != 0);
}

/* Gives all blocks back; the table is then an empty one. */
void kv_table_fini(struct kv_table *t, struct kv_pool *p);

/* Make room in the array for @blocks ids; takes none. 0 or -ENOMEM. */
int kv_table_grow(struct kv_table *t, uint32_t blocks);

/* Make room for positions up to @tokens. 0; -ENOBUFS (nothing changed), -ENOMEM. */
int kv_table_reserve(struct kv_table *t, struct kv_pool *p, uint32_t tokens);

/* The blocks [from, to) are no longer needed: those that are ours alone are appended, until there are @blocks, the
 * others go back; holes stay. 0 or -ENOMEM (nothing changed). */
int kv_table_rotate(struct kv_table *t, struct kv_pool *p, uint32_t from, uint32_t to, uint32_t blocks);

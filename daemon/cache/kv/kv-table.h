/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The block table of one sequence in one KV group: it maps positions to KV blocks, 32 positions to a block. The table
 * holds one reference on each of its blocks. A table of zeros is an empty one. It has no lock: the engine thread owns
 * it.
 */
#include "daemon/cache/kv/kv-pool.h"

struct kv_table {
    uint32_t *ids; /* [n_blocks] */
    uint32_t n_blocks;
    uint32_t cap; /* ids that fit into the array */
};

/* The tables of one sequence. */
struct kv_tables {
    uint32_t n_tokens; /* tokens whose K and V are computed */
    struct kv_table tables[KV_GROUPS_MAX];
};

/* The number of blocks for @tokens tokens. */
static inline uint32_t kv_table_blocks(uint32_t tokens)
{
    return tokens / KV_BLOCK + (tokens % KV_BLOCK != 0);
}

/* Removes the references on all blocks and frees the array; the table is empty afterwards. */
void kv_table_fini(struct kv_table *t, struct kv_pool *p);

/* Makes room in the array for @blocks ids; takes no block. 0; -ENOMEM, and nothing has changed. */
int kv_table_grow(struct kv_table *t, uint32_t blocks);

/* Takes blocks from @p until the table covers @tokens positions. 0; -ENOBUFS when the pool has too few free blocks, or
 * -ENOMEM, and the table has the same blocks as before. */
int kv_table_reserve(struct kv_table *t, struct kv_pool *p, uint32_t tokens);

/* Removes the references on the blocks before entry @n, which become KV_NO_BLOCK; the table has @n entries at least
 * then. 0; -ENOMEM: nothing changed. */
int kv_table_skip(struct kv_table *t, struct kv_pool *p, uint32_t n);

/*
 * Replaces the blocks [from, to) by KV_NO_BLOCK. A block that only this table refers to is appended to the table,
 * until it has @blocks entries; the table removes its reference on each of the others. 0; -ENOMEM: nothing changed.
 */
int kv_table_rotate(struct kv_table *t, struct kv_pool *p, uint32_t from, uint32_t to, uint32_t blocks);

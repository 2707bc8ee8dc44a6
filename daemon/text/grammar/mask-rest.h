/* SPDX-License-Identifier: MIT */
#pragma once
/* A mask that is being made, inside mask.c and mask-rest.c. */
#include "daemon/text/grammar/grammar-inside.h"
#include "daemon/text/grammar/token-trie.h"

struct masking {
    struct grammar *g;
    struct rows *r;
    const struct token_trie *t;
    uint64_t *mask;
    uint32_t *path; /* [max_len + 1] rows, by depth */
    size_t work;    /* nodes looked at */
};

static inline void mask_set(uint64_t *mask, int32_t id)
{
    mask[id >> 6] |= 1ull << (id & 63);
}

/* Adds the tokens of @row that are not in the mask yet. 0 or the error of the rows. */
int mask_rest(struct masking *m, uint32_t row);

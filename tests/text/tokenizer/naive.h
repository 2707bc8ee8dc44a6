/* SPDX-License-Identifier: MIT */
#pragma once
/* Merging by its definition: look at all neighbours, merge the best pair (the leftmost of equals), repeat. */
#include "daemon/text/tokenizer/tokenizer.h"
#include <stddef.h>

/* The place of the merge of @l and @r in the order (lower first), or negative if they cannot be merged. */
typedef long (*naive_fn)(const void *ctx, const char *l, size_t l_len, const char *r, size_t r_len);

/* Checks that @t cuts texts of a few letters so. */
void naive_compare(const struct tokenizer *t, uint64_t *seed, naive_fn fn, const void *ctx);

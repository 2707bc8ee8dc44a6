/* SPDX-License-Identifier: MIT */
#pragma once
/* Merging by its definition: look at all neighbours, merge the best pair (the leftmost of equals), repeat. */
#include <stddef.h>

/* The place of the merge of @l and @r in the order (lower first), or negative if they cannot be merged. */
typedef long (*naive_fn)(const void *ctx, const char *l, size_t l_len, const char *r, size_t r_len);

/* Cuts @s into parts; cuts[i] is the end of part i. Returns the number of parts (at most @n). */
size_t naive_merge(const char *s, size_t n, naive_fn fn, const void *ctx, size_t *cuts);

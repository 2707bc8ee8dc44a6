/* SPDX-License-Identifier: MIT */
#pragma once
/* Merging as it is defined, without any cleverness: look at all neighbours, merge the best pair (the leftmost of
 * equals), again. */
#include <stddef.h>

/* Where @l and @r may be merged: their place in the order (lower first), else negative. */
typedef long (*naive_fn)(const void *ctx, const char *l, size_t l_len, const char *r, size_t r_len);

/* Cuts @s into parts; cuts[i] is the end of part i. Returns how many (at most @n). */
size_t naive_merge(const char *s, size_t n, naive_fn fn, const void *ctx, size_t *cuts);

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Memory that is freed all at once: a compiled template, or everything that one render allocates. The last allocation
 * of an arena can grow or shrink in place, so a string that grows at its end does not cost the square of its length.
 */
#include <stdbool.h>
#include <stddef.h>

/* Bytes that may still be allocated. Arenas can share a budget. */
struct jj_budget {
    size_t left;
};

struct jj_chunk;

/* {0} is an empty arena without a budget. */
struct jj_arena {
    struct jj_chunk *head;
    struct jj_budget *budget; /* NULL: no limit */
};

/* @n bytes, zeroed, aligned for anything. NULL: *err is -ENOMEM, or -E2BIG when the budget is used up. */
void *jj_arena_alloc(struct jj_arena *a, size_t n, int *err);

/* Like jj_arena_alloc, neither zeroed nor aligned. */
char *jj_arena_bytes(struct jj_arena *a, size_t n, int *err);

/* Changes the size of @p from @old to @n bytes if it is the last allocation and there is room. false: nothing has
 * changed. */
bool jj_arena_resize(struct jj_arena *a, const void *p, size_t old, size_t n);

void jj_arena_fini(struct jj_arena *a);

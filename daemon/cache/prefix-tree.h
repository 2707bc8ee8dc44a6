/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Ordered sets whose links live in their members: a treap (a search tree that is a heap by random priorities), so that
 * everything is O(log n) whatever order members come in, nothing is allocated and nothing recurses. Each link carries
 * a few bits of its own and the union of those below it, to find the nearest member that has one of them.
 */
#include <stdbool.h>
#include <stdint.h>

struct tree_link {
    struct tree *in; /* NULL: in none */
    struct tree_link *up, *left, *right;
    uint64_t key; /* tree_put's */
    uint32_t priority;
    uint8_t own, all; /* bits: this link's; this and all below */
};

struct tree {
    struct tree_link *top;
};

/* Once, before a link is used: @priority is any random number. */
static inline void tree_link_init(struct tree_link *l, uint32_t priority)
{
    *l = (struct tree_link){.priority = priority};
}

/* Put @l, which is in no tree, where the caller's own search ended: *@slot, a NULL child of @up (NULL: the empty
 * top). */
void tree_attach(struct tree *t, struct tree_link *l, struct tree_link *up, struct tree_link **slot);
/* Put @l behind all that have its key or a smaller one. */
void tree_put(struct tree *t, struct tree_link *l, uint64_t key);
/* Take @l out of the tree it is in. */
void tree_take(struct tree_link *l);
/* Make it be in @t (NULL: in none) with @key. */
void tree_move(struct tree *t, struct tree_link *l, uint64_t key);
/* Give @l, which may be in a tree, other bits. */
void tree_set_own(struct tree_link *l, uint8_t own);

/* NULL: none. */
struct tree_link *tree_first(const struct tree *t);
struct tree_link *tree_last(const struct tree *t);
struct tree_link *tree_next(const struct tree_link *l);

/* The first and the last in the part below and with @l (NULL ok) that has one of the bits @mask. NULL: none. */
struct tree_link *tree_first_of(struct tree_link *l, uint8_t mask);
struct tree_link *tree_last_of(struct tree_link *l, uint8_t mask);

/* Assert that links, heap and bits are right; how many there are. */
uint64_t tree_check(const struct tree *t);

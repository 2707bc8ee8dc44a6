/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Ordered sets whose links are members of the entries. A set is a treap: a binary search tree in which a parent's
 * random priority is at least as high as its children's. Insertion and removal take O(log n) in any order of insertion,
 * allocate nothing and do not recurse. Each link has a few bits and the union of the bits in its subtree, to find the
 * nearest entry with one of some bits. The entries are the caller's. Source: Seidel and Aragon, 1996, "Randomized
 * search trees".
 */
#include <stdbool.h>
#include <stdint.h>

struct tree_link {
    struct tree *in; /* NULL: in no tree */
    struct tree_link *up, *left, *right;
    uint64_t key; /* set by tree_put */
    uint32_t priority;
    uint8_t own; /* bits of this link */
    uint8_t all; /* bits of this link and of all links below it */
};

struct tree {
    struct tree_link *top;
};

/* Call once, before the first use of a link. @priority is any random number. */
static inline void tree_link_init(struct tree_link *l, uint32_t priority)
{
    *l = (struct tree_link){.priority = priority};
}

/* Inserts @l, which is in no tree, at the place that the caller has searched: @slot is a NULL child pointer of @up, or
 * the empty top with @up NULL. */
void tree_attach(struct tree *t, struct tree_link *l, struct tree_link *up, struct tree_link **slot);
/* Inserts @l after all links whose key is at most @key. */
void tree_put(struct tree *t, struct tree_link *l, uint64_t key);
/* Removes @l from its tree. */
void tree_take(struct tree_link *l);
/* Makes @l a member of @t with @key, whatever tree it is in; @t NULL: of no tree. */
void tree_move(struct tree *t, struct tree_link *l, uint64_t key);
/* Sets the bits of @l, which may be in a tree. */
void tree_set_own(struct tree_link *l, uint8_t own);

/* The first link, the last link, and the ones after and before @l. NULL: none. */
struct tree_link *tree_first(const struct tree *t);
struct tree_link *tree_last(const struct tree *t);
struct tree_link *tree_next(const struct tree_link *l);
struct tree_link *tree_previous(const struct tree_link *l);

/* The first and the last link in the subtree of @l (NULL: empty) with one of the bits in @mask. NULL: none. */
struct tree_link *tree_first_of(struct tree_link *l, uint8_t mask);
struct tree_link *tree_last_of(struct tree_link *l, uint8_t mask);

/* Asserts that links, priorities and bits are right, and returns the number of links. For tests. */
uint64_t tree_check(const struct tree *t);

/* SPDX-License-Identifier: MIT */
#include "daemon/cache/prefix/prefix-tree.h"
#include <assert.h>
#include <stddef.h>

static uint8_t all_of(const struct tree_link *l)
{
    return (uint8_t)(l->own | (l->left ? l->left->all : 0) | (l->right ? l->right->all : 0));
}

/* Recomputes the bits of @l and its ancestors, until one does not change. */
static void sum_up(struct tree_link *l)
{
    for (; l; l = l->up) {
        uint8_t all = all_of(l);
        if (all == l->all) break;
        l->all = all;
    }
}

/* The pointer that refers to @l: its parent's, or the tree's top. */
static struct tree_link **slot_of(struct tree_link *l)
{
    if (!l->up) return &l->in->top;
    return l->up->left == l ? &l->up->left : &l->up->right;
}

/* Rotates @l into the place of its parent, which becomes its child. */
static void rotate_up(struct tree_link *l)
{
    struct tree_link *up = l->up, **slot = slot_of(up), *moved;
    if (up->left == l) {
        moved = up->left = l->right;
        l->right = up;
    } else {
        moved = up->right = l->left;
        l->left = up;
    }
    if (moved) moved->up = up;
    l->up = up->up;
    up->up = l;
    *slot = l;
    l->all = up->all;
    up->all = all_of(up);
}

void tree_attach(struct tree *t, struct tree_link *l, struct tree_link *up, struct tree_link **slot)
{
    assert(!l->in && !*slot);
    l->in = t;
    l->left = l->right = NULL;
    l->up = up;
    l->all = l->own;
    *slot = l;
    sum_up(up);
    while (l->up && l->up->priority < l->priority) rotate_up(l);
}

void tree_put(struct tree *t, struct tree_link *l, uint64_t key)
{
    struct tree_link *up = NULL, **slot = &t->top;
    while (*slot) {
        up = *slot;
        slot = key < up->key ? &up->left : &up->right;
    }
    l->key = key;
    tree_attach(t, l, up, slot);
}

void tree_take(struct tree_link *l)
{
    assert(l->in);
    while (l->left && l->right) rotate_up(l->left->priority > l->right->priority ? l->left : l->right);
    struct tree_link *child = l->left ? l->left : l->right;
    *slot_of(l) = child;
    if (child) child->up = l->up;
    sum_up(l->up);
    l->in = NULL;
    l->up = l->left = l->right = NULL;
}

void tree_move(struct tree *t, struct tree_link *l, uint64_t key)
{
    if (l->in == t && (!t || l->key == key)) return;
    if (l->in) tree_take(l);
    if (t) tree_put(t, l, key);
}

void tree_set_own(struct tree_link *l, uint8_t own)
{
    l->own = own;
    sum_up(l);
}

struct tree_link *tree_first(const struct tree *t)
{
    struct tree_link *l = t->top;
    while (l && l->left) l = l->left;
    return l;
}

struct tree_link *tree_last(const struct tree *t)
{
    struct tree_link *l = t->top;
    while (l && l->right) l = l->right;
    return l;
}

struct tree_link *tree_next(const struct tree_link *l)
{
    if (l->right) {
        struct tree_link *next = l->right;
        while (next->left) next = next->left;
        return next;
    }
    while (l->up && l->up->right == l) l = l->up;
    return l->up;
}

struct tree_link *tree_previous(const struct tree_link *l)
{
    if (l->left) {
        struct tree_link *before = l->left;
        while (before->right) before = before->right;
        return before;
    }
    while (l->up && l->up->left == l) l = l->up;
    return l->up;
}

struct tree_link *tree_first_of(struct tree_link *l, uint8_t mask)
{
    if (!l || !(l->all & mask)) return NULL;
    for (;;) {
        if (l->left && l->left->all & mask)
            l = l->left;
        else if (l->own & mask)
            return l;
        else
            l = l->right;
    }
}

struct tree_link *tree_last_of(struct tree_link *l, uint8_t mask)
{
    if (!l || !(l->all & mask)) return NULL;
    for (;;) {
        if (l->right && l->right->all & mask)
            l = l->right;
        else if (l->own & mask)
            return l;
        else
            l = l->left;
    }
}

uint64_t tree_check(const struct tree *t)
{
    uint64_t n = 0;
    assert(!t->top || !t->top->up);
    for (const struct tree_link *l = tree_first(t); l; l = tree_next(l), n++) {
        assert(l->in == t && l->all == all_of(l));
        assert(!l->left || (l->left->up == l && l->left->priority <= l->priority));
        assert(!l->right || (l->right->up == l && l->right->priority <= l->priority));
    }
    return n;
}

/* SPDX-License-Identifier: MIT */
#include "daemon/cache/prefix/prefix-table.h"
#include "libcommon/error.h"
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#define SLOTS_MIN 64

int table_init(struct table *t, uint64_t expected)
{
    uint64_t slots = SLOTS_MIN;
    while (slots < expected) slots *= 2;
    t->slots = calloc(slots, sizeof(struct table_link *));
    if (!t->slots) return -ENOMEM;
    t->mask = slots - 1;
    t->count = 0;
    return 0;
}

void table_fini(struct table *t)
{
    free(t->slots);
    *t = (struct table){0};
}

static void grow(struct table *t)
{
    uint64_t mask = t->mask * 2 + 1;
    struct table_link **slots = calloc(mask + 1, sizeof(struct table_link *));
    if (!slots) return;
    for (uint64_t i = 0; i <= t->mask; i++)
        for (struct table_link *l = t->slots[i], *next; l; l = next) {
            next = l->next;
            l->next = slots[l->hash & mask];
            slots[l->hash & mask] = l;
        }
    free(t->slots);
    t->slots = slots;
    t->mask = mask;
}

void table_add(struct table *t, struct table_link *l, uint64_t hash)
{
    if (t->count > t->mask) grow(t);
    l->hash = hash;
    l->next = t->slots[hash & t->mask];
    t->slots[hash & t->mask] = l;
    t->count++;
}

void table_remove(struct table *t, struct table_link *l)
{
    struct table_link **slot = &t->slots[l->hash & t->mask];
    while (*slot != l) {
        assert(*slot);
        slot = &(*slot)->next;
    }
    *slot = l->next;
    t->count--;
}

static struct table_link *with_hash(struct table_link *l, uint64_t hash)
{
    while (l && l->hash != hash) l = l->next;
    return l;
}

struct table_link *table_first(const struct table *t, uint64_t hash)
{
    return with_hash(t->slots[hash & t->mask], hash);
}

struct table_link *table_next(const struct table_link *l)
{
    return with_hash(l->next, l->hash);
}

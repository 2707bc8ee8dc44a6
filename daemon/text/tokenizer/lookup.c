/* SPDX-License-Identifier: MIT */
/* The two hash tables of a vocabulary: linear probing, load at most two thirds. */
#include "daemon/text/seed.h"
#include "daemon/text/tokenizer/vocab.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static size_t slots_for(size_t n)
{
    size_t slots = 16;
    while (slots / 3 * 2 < n) slots *= 2;
    return slots;
}

int text_table_init(struct text_table *t, size_t n)
{
    size_t slots = slots_for(n);
    t->slots = calloc(slots, sizeof(*t->slots));
    if (!t->slots) return error_origin(-ENOMEM);
    t->mask = slots - 1;
    t->seed = hash_seed();
    return 0;
}

/* The slot of the text, or the empty slot for it. */
static struct text_slot *text_slot(const struct text_table *t, const struct strings *keys, const char *s, size_t len,
                                   uint64_t hash)
{
    for (size_t i = hash & t->mask;; i = (i + 1) & t->mask) {
        struct text_slot *slot = &t->slots[i];
        if (!slot->id1) return slot;
        if (slot->tag != hash >> 32) continue;
        size_t n;
        const char *key = strings_at(keys, slot->id1 - 1, &n);
        if (n == len && memcmp(key, s, len) == 0) return slot;
    }
}

int32_t text_table_add(struct text_table *t, const struct strings *keys, int32_t id)
{
    size_t len;
    const char *s = strings_at(keys, (uint32_t)id, &len);
    uint64_t hash = XXH3_64bits_withSeed(s, len, t->seed);
    struct text_slot *slot = text_slot(t, keys, s, len, hash);
    if (slot->id1) return (int32_t)(slot->id1 - 1);
    *slot = (struct text_slot){.tag = (uint32_t)(hash >> 32), .id1 = (uint32_t)id + 1};
    return -1;
}

uint64_t text_table_hash(const struct text_table *t, const char *s, size_t len)
{
    uint64_t hash = XXH3_64bits_withSeed(s, len, t->seed);
    __builtin_prefetch(&t->slots[hash & t->mask]);
    return hash;
}

int32_t text_table_find_hash(const struct text_table *t, const struct strings *keys, const char *s, size_t len,
                             uint64_t hash)
{
    return (int32_t)text_slot(t, keys, s, len, hash)->id1 - 1;
}

int32_t text_table_find(const struct text_table *t, const struct strings *keys, const char *s, size_t len)
{
    return text_table_find_hash(t, keys, s, len, XXH3_64bits_withSeed(s, len, t->seed));
}

int merge_table_init(struct merge_table *m, size_t n)
{
    size_t slots = slots_for(n);
    m->slots = calloc(slots, sizeof(*m->slots));
    if (!m->slots) return error_origin(-ENOMEM);
    m->mask = slots - 1;
    m->seed = hash_seed();
    return 0;
}

static size_t merge_index(const struct merge_table *m, int32_t left, int32_t right)
{
    uint64_t pair = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) ^ m->seed;
    pair = (pair ^ pair >> 32) * (m->seed | 1); /* a file could be written against a product with a constant alone */
    return (pair * 0x9e3779b97f4a7c15u) >> 32 & m->mask; /* 2^64 / golden ratio */
}

static struct merge_slot *merge_slot(const struct merge_table *m, int32_t left, int32_t right)
{
    for (size_t i = merge_index(m, left, right);; i = (i + 1) & m->mask) {
        struct merge_slot *slot = &m->slots[i];
        if (!slot->rank1 || (slot->left == left && slot->right == right)) return slot;
    }
}

void merge_table_prefetch(const struct merge_table *m, int32_t left, int32_t right)
{
    __builtin_prefetch(&m->slots[merge_index(m, left, right)], 1);
}

void merge_table_add(struct merge_table *m, int32_t left, int32_t right, uint32_t rank, int32_t id)
{
    struct merge_slot *slot = merge_slot(m, left, right);
    if (!slot->rank1) *slot = (struct merge_slot){.left = left, .right = right, .rank1 = rank + 1, .id = id};
}

const struct merge_slot *merge_table_find(const struct merge_table *m, int32_t left, int32_t right)
{
    const struct merge_slot *slot = merge_slot(m, left, right);
    return slot->rank1 ? slot : NULL;
}

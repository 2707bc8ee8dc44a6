/* SPDX-License-Identifier: MIT */
#include "daemon/cache/media/media-table.h"
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <xxhash.h>

void media_name(const struct media_key *key, uint64_t out[2])
{
    XXH128_hash_t h = XXH3_128bits(key, sizeof(*key));
    out[0] = h.high64;
    out[1] = h.low64;
}

struct media_entry *media_table_find(const struct media_table *t, const uint64_t name[2])
{
    for (size_t i = 0; i < t->n; i++)
        if (t->entries[i].name[1] == name[1] && t->entries[i].name[0] == name[0]) return &t->entries[i];
    return NULL;
}

int media_table_add(struct media_table *t, const struct media_entry *x)
{
    if (t->n == MEDIA_ENTRIES_MAX) return -ENOBUFS;
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 64;
        struct media_entry *more = reallocarray(t->entries, cap, sizeof(*more));
        if (!more) return -ENOMEM;
        t->entries = more;
        t->cap = cap;
    }
    struct media_entry *y = &t->entries[t->n++];
    *y = *x;
    embeddings_ref(y->e);
    t->bytes += y->bytes;
    if (y->used == 0)
        media_table_use(t, y);
    else if (y->used > t->uses)
        t->uses = y->used;
    return 0;
}

void media_table_use(struct media_table *t, struct media_entry *x)
{
    x->used = ++t->uses;
}

void media_table_remove(struct media_table *t, struct media_entry *x)
{
    t->bytes -= x->bytes;
    embeddings_unref(x->e);
    *x = t->entries[--t->n];
}

/* True: an entry before @i has its user. */
static bool is_summed(const struct media_table *t, size_t i)
{
    for (size_t k = i; k-- > 0;)
        if (t->entries[k].uid == t->entries[i].uid) return true;
    return false;
}

/* The user with the most bytes. */
static uid_t heaviest(const struct media_table *t)
{
    uint64_t most = 0;
    uid_t uid = t->entries[0].uid;
    for (size_t i = 0; i < t->n; i++) {
        uint64_t sum = 0;
        if (i && t->entries[i].uid == t->entries[i - 1].uid) continue; /* the usual case */
        if (is_summed(t, i)) continue;
        for (size_t k = i; k < t->n; k++)
            if (t->entries[k].uid == t->entries[i].uid) sum += t->entries[k].bytes;
        if (sum <= most) continue;
        most = sum;
        uid = t->entries[i].uid;
    }
    return uid;
}

struct media_entry *media_table_victim(const struct media_table *t)
{
    struct media_entry *oldest = NULL;
    if (t->n == 0) return NULL;
    const uid_t uid = heaviest(t);
    for (size_t i = 0; i < t->n; i++) {
        struct media_entry *x = &t->entries[i];
        if (x->uid == uid && (!oldest || x->used < oldest->used)) oldest = x;
    }
    return oldest;
}

void media_table_fini(struct media_table *t)
{
    for (size_t i = 0; i < t->n; i++) embeddings_unref(t->entries[i].e);
    free(t->entries);
    *t = (struct media_table){0};
}

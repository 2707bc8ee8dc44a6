/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Embeddings of runs by key, with their size, user and order of use: the contents of a cache, in memory or on disk. If
 * the cache is full, the user who has the most bytes loses the embeddings that were unused for longest, so that no
 * user removes what others have less of. No lock.
 */
#include "daemon/model/embedding-values.h"
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MEDIA_ENTRIES_MAX 8192

/* Users find only what was computed in their own namespace. */
struct media_key {
    uint8_t namespace[16];
    uint8_t digest[16]; /* of a run (struct item_run) */
};

struct media_entry {
    uint64_t name[2]; /* media_name of the key */
    uid_t uid;
    uint64_t bytes, used; /* used: a number that is larger for a later use */
    struct embeddings *e; /* held; NULL: on disk */
};

/* {0} is empty. */
struct media_table {
    struct media_entry *entries; /* [n] in any order */
    size_t n, cap;
    uint64_t bytes; /* of all */
    uint64_t uses;  /* the last number given */
};

/* XXH3-128 of @key. */
void media_name(const struct media_key *key, uint64_t out[2]);

/* NULL: it is not there. Valid until the table changes. */
struct media_entry *media_table_find(const struct media_table *t, const uint64_t name[2]);
/* Add a copy of @x, whose name is not there; takes a reference of its own on x->e. x->used 0: it is used now. 0,
 * -ENOMEM or -ENOBUFS: there are MEDIA_ENTRIES_MAX. */
int media_table_add(struct media_table *t, const struct media_entry *x);
void media_table_use(struct media_table *t, struct media_entry *x); /* it is used now */
void media_table_remove(struct media_table *t, struct media_entry *x);
/* The one to be removed when the cache is full; NULL: it is empty. */
struct media_entry *media_table_victim(const struct media_table *t);
void media_table_fini(struct media_table *t);

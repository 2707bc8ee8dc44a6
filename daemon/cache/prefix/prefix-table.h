/* SPDX-License-Identifier: MIT */
#pragma once
/* A chained hash table whose links are members of the entries. It compares hashes only: the caller compares the keys of
 * the entries with an equal hash. The table owns its slots; the entries are the caller's. */
#include <stdint.h>

struct table_link {
    struct table_link *next;
    uint64_t hash;
};

struct table {
    struct table_link **slots; /* [mask + 1] */
    uint64_t mask, count;
};

/* Makes an empty table with slots for @expected entries. 0: table_fini frees the slots. -ENOMEM: there is nothing to
 * free. */
int table_init(struct table *t, uint64_t expected);
/* Frees the slots, not the entries. */
void table_fini(struct table *t);

/* Adds an entry that is in no table. Never fails: without memory for more slots the chains grow. */
void table_add(struct table *t, struct table_link *l, uint64_t hash);
/* Removes an entry of this table. */
void table_remove(struct table *t, struct table_link *l);

/* The first entry with @hash, and the next one with the hash of @l. NULL: no more. */
struct table_link *table_first(const struct table *t, uint64_t hash);
struct table_link *table_next(const struct table_link *l);

/* SPDX-License-Identifier: MIT */
#pragma once
/* A chained hash table whose links live in its members. The hash only finds: the caller proves. */
#include <stdint.h>

struct table_link {
    struct table_link *next;
    uint64_t hash;
};

struct table {
    struct table_link **slots; /* [mask + 1] */
    uint64_t mask, count;
};

/* With room for @expected. 0 or -ENOMEM. */
int table_init(struct table *t, uint64_t expected);
void table_fini(struct table *t); /* not its members */

/* Never fails: without memory to grow, the chains grow. */
void table_add(struct table *t, struct table_link *l, uint64_t hash);
void table_remove(struct table *t, struct table_link *l);

/* The members with @hash, in turn; NULL: no more. */
struct table_link *table_first(const struct table *t, uint64_t hash);
struct table_link *table_next(const struct table_link *l);

/* SPDX-License-Identifier: MIT */
#pragma once
/* The inside of the cache of constraints, for constraint.c and constraint-memory.c. */
#include "daemon/request/constraint.h"
#include "daemon/text/grammar/grammar-memory.h"
#include <xxhash.h>

struct constraint_user {
    struct grammar_memory memory; /* first: it is freed with it. The cache's list is one holder */
    struct constraint_user *next;
    struct constraints *cache;
    uid_t uid;
};

struct entry {
    struct constraint base;
    struct entry *next;           /* in the cache, the last used first */
    XXH128_hash_t hash;           /* of @key */
    struct buf key;               /* owner and content */
    struct constraint_user *user; /* held */
    uint32_t holds;
};

struct constraints {
    pthread_mutex_t lock; /* guards all below */
    const struct tokenizer *tokenizer;
    struct token_trie *trie; /* NULL: no constraint was compiled yet */
    uint64_t secret;         /* of the owners' spaces, so that nobody can look for equal ones */
    struct entry *list;
    struct constraint_user *users;
};

struct entry *entry_free(struct entry *e); /* NULL ok, returns NULL */

/* The user with @uid, held by its memory. NULL: no memory. */
struct constraint_user *constraint_user_hold(struct constraints *c, uid_t uid);

/* Forget the entries that are too many for CONSTRAINTS_BYTES, now that @u has one more. */
void constraints_shrink(struct constraints *c, const struct constraint_user *u);

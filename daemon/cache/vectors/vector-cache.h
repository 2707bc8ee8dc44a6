/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The vectors of texts in memory, so that a repeated text costs a look-up. A vector is found by hash, and the text
 * proves it. Each is charged to the user who had it computed; who has the most bytes loses the one that he used the
 * longest time ago, so no user can displace the vectors of one who has fewer. One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct vector_user;
struct vector_entry;

struct vector_cache {
    uint64_t bytes_max; /* set by the owner; 0: nothing is kept */
    uint64_t bytes;     /* of all entries */
    uint32_t dim;       /* values of a vector; set by the owner */
    size_t n, n_buckets;
    struct vector_entry **buckets;
    struct vector_user *users;
};

/* What a vector is of. */
struct vector_key {
    uint8_t namespace[16]; /* of user and salt; vectors of others are not found */
    uint32_t pooling;
    const char *question; /* [question_len] of scores: the other text; NULL: none */
    size_t question_len;
    const char *text; /* [len] */
    size_t len;
};

/* Sums of one user, or of all. */
struct vector_stats {
    uint64_t n, bytes;
    uint64_t found, missed; /* look-ups since the start; those of users without entries are forgotten */
};

/* Copy the vector to @out [dim] and its text's tokens to *tokens; it counts as used. False: it is not there. */
bool vector_cache_find(struct vector_cache *c, const struct vector_key *key, uid_t uid, float *out, uint32_t *tokens);
/* Keep a vector [dim] for @uid, if there is room or can be made, and memory. */
void vector_cache_add(struct vector_cache *c, const struct vector_key *key, uid_t uid, const float *vector,
                      uint32_t tokens);
/* Remove a quarter of the bytes, under memory pressure. */
void vector_cache_shed(struct vector_cache *c);
/* @uid (uid_t)-1: of all. */
void vector_cache_stats(const struct vector_cache *c, uid_t uid, struct vector_stats *out);
void vector_cache_fini(struct vector_cache *c);

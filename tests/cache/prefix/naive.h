/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A naive model of the prefix index: a list of places, each with all its tokens from the root on. Each operation
 * compares the tokens with those of all other places to find parents, children and covering siblings.
 */
#include "daemon/cache/prefix/prefix.h"

#define NAIVE_TOKENS 128 /* the most tokens of a place */
#define NAIVE_PLACES 512
#define NAIVE_UIDS   3

struct place {
    uint32_t namespace, n; /* tokens from the root on */
    int32_t tokens[NAIVE_TOKENS];
    struct prefix_id id;
    uid_t uid;
    uint32_t block; /* or KV_NO_BLOCK */
    bool disk, writing;
    uint32_t refs, tails;
    uint64_t used, since; /* the model's clock and its uid's clock at the last use */
    uint32_t uses;
};

struct naive {
    struct place places[NAIVE_PLACES];
    uint32_t n;
    uint64_t clock, clocks[NAIVE_UIDS], evictions[NAIVE_UIDS];
    /* The scores are the index's (test-eviction-score covers them): the rank of a leaf of @uid in the order of
     * eviction, by its uses and age; always 0 while the uid has no scores. */
    uint32_t (*rank)(uid_t uid, uint32_t uses, uint64_t age);
    struct {
        uint32_t namespace, n;
        int32_t tokens[NAIVE_TOKENS];
    } ghosts[NAIVE_PLACES * 8];
    uint32_t n_ghosts;
};

struct naive_match {
    uint32_t n, n_partial, n_disk;
    bool all, surely_evicted, maybe_evicted;
};

uint32_t place_last(const struct place *e); /* tokens of its last block */
bool place_in_memory(const struct place *e);
/* tokens[n] of the namespace begin with all tokens of @a. */
bool place_begins(const struct place *a, uint32_t ns, const int32_t *tokens, uint32_t n);

/* NULL: none. A pointer is valid until a place is removed. */
struct place *naive_at(struct naive *m, uint32_t ns, const int32_t *tokens, uint32_t n);
struct place *naive_by_id(struct naive *m, struct prefix_id id);
struct place *naive_parent(struct naive *m, const struct place *e);

bool naive_pinned(const struct naive *m, const struct place *e);
bool naive_leaf(const struct naive *m, const struct place *e); /* in memory and evictable */
bool naive_writable(struct naive *m, const struct place *e);
bool naive_disk_leaf(const struct naive *m, const struct place *e); /* its file can be removed */
bool naive_victim(const struct naive *m, const struct place *e);    /* a leaf that prefix_evict can take next */
uint32_t naive_blocks(const struct naive *m, uid_t uid);

void naive_find(struct naive *m, uint32_t ns, const int32_t *tokens, uint32_t n, struct naive_match *out);
/* The length of the longest beginning of tokens[at …] that a child in memory or on disk shares. */
uint32_t naive_child(struct naive *m, uint32_t ns, const int32_t *tokens, uint32_t at, uint32_t n);

/* A place in memory with exactly these tokens, or a sibling that has them and more; NULL: none. */
struct place *naive_covering(struct naive *m, uint32_t ns, const int32_t *tokens, uint32_t n);
/* Puts a place, new or not, into memory, and drops the places that it covers. */
struct place *naive_enter(struct naive *m, uint32_t ns, const int32_t *tokens, uint32_t n, uint32_t block, uid_t uid);
/* Marks @e and its ancestors as used; @begins: by a new request that begins with their tokens. */
void naive_touch(struct naive *m, const struct place *e, bool begins);
/* Counts a use of a place that was computed now; advances the clocks. */
void naive_add_use(struct naive *m, struct place *e);
void naive_evict(struct naive *m, struct place *e, bool writing);
void naive_disk_removed(struct naive *m, struct place *e);
/* Removes places without block, file, children and references, and covered places. */
void naive_tidy(struct naive *m);

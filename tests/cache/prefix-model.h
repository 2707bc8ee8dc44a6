/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What the prefix index should do, in the plainest way: a list of places, each with all its tokens from the root on.
 * Who is whose parent, child or beginning is found by comparing tokens with every other place, each time anew.
 */
#include "daemon/cache/prefix.h"

#define MODEL_TOKENS 128 /* of a place at most */
#define MODEL_PLACES 512
#define MODEL_UIDS   3

struct place {
    uint32_t space, n; /* tokens from the root on */
    int32_t tokens[MODEL_TOKENS];
    struct prefix_id id;
    uid_t uid;
    uint32_t block; /* or PREFIX_NO_BLOCK */
    bool disk, writing;
    uint32_t holds, tails;
    uint64_t used, since; /* the model's clock; its uid's */
    uint32_t uses;
};

struct model {
    struct place places[MODEL_PLACES];
    uint32_t n;
    uint64_t clock, clocks[MODEL_UIDS], evictions[MODEL_UIDS];
    /* What is learned is the index's own (test-worth proves it): the place of a leaf in the order in which the leaves
     * of
     * @uid go, by its uses and age; all 0 while nothing is learned. */
    uint32_t (*rank)(uid_t uid, uint32_t uses, uint64_t age);
    struct {
        uint32_t space, n;
        int32_t tokens[MODEL_TOKENS];
    } given_up[MODEL_PLACES * 8];
    uint32_t n_given_up;
};

struct model_match {
    uint32_t n, n_partial, n_disk;
    bool all, surely_evicted, maybe_evicted;
};

uint32_t place_last(const struct place *e); /* tokens of its last block */
bool place_in_memory(const struct place *e);
bool place_begins(const struct place *a, uint32_t space, const int32_t *tokens,
                  uint32_t n); /* all of @a are a beginning */

/* NULL: none. Pointers are good until something is removed. */
struct place *model_at(struct model *m, uint32_t space, const int32_t *tokens, uint32_t n);
struct place *model_by_id(struct model *m, struct prefix_id id);
struct place *model_parent(struct model *m, const struct place *e);

bool model_pinned(const struct model *m, const struct place *e);
bool model_leaf(const struct model *m, const struct place *e); /* in memory, and may be evicted now */
bool model_writable(struct model *m, const struct place *e);
bool model_disk_leaf(const struct model *m, const struct place *e); /* may go from disk */
bool model_victim(const struct model *m, const struct place *e);    /* one that evict should take next */
uint32_t model_blocks(const struct model *m, uid_t uid);

void model_find(struct model *m, uint32_t space, const int32_t *tokens, uint32_t n, struct model_match *out);
/* The most tokens of those behind tokens[at] in which a child in memory or on disk agrees. */
uint32_t model_child(struct model *m, uint32_t space, const int32_t *tokens, uint32_t at, uint32_t n);

/* A sibling in memory that has all of these tokens and more, or these very ones; NULL. */
struct place *model_covering(struct model *m, uint32_t space, const int32_t *tokens, uint32_t n);
/* The place is in memory now, new or not; whatever that ends is ended. */
struct place *model_enter(struct model *m, uint32_t space, const int32_t *tokens, uint32_t n, uint32_t block,
                          uid_t uid);
/* And all before it; by a request that begins with it, if @begins. */
void model_touch(struct model *m, const struct place *e, bool begins);
/* It is used by one that computed it too, or is computed: the clocks go on. */
void model_add_use(struct model *m, struct place *e);
void model_evict(struct model *m, struct place *e, bool writing);
void model_lost(struct model *m, struct place *e);
/* Remove what stands for nothing, and beginnings that nothing keeps. */
void model_tidy(struct model *m);

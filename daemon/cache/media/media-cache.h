/* SPDX-License-Identifier: MIT */
#pragma once
/* The embeddings of runs in memory, so that a picture is encoded once, wherever it is in a prompt. One thread. */
#include "daemon/cache/media/media-table.h"

struct media_cache {
    struct media_table table;
    uint64_t bytes_max;
};

/* Held for the caller; NULL: they are not there. It counts as used. */
struct embeddings *media_cache_find(struct media_cache *c, const struct media_key *key);
/* Keep @e for @uid, if there is room or can be made, and memory. Takes a reference of its own. */
void media_cache_add(struct media_cache *c, const struct media_key *key, uid_t uid, struct embeddings *e);
/* Remove a part of the entries, under memory pressure. */
void media_cache_shed(struct media_cache *c);
void media_cache_fini(struct media_cache *c);

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Sequences with an adapter. The cache knows what a sequence computes by its items. From the first item with an adapter
 * on that is more than the tokens: for the cache, this one item is a run of its own (ITEM_ADAPTER), whose digest is
 * made of the adapter, its scale and the token. So all that follows has another place in the tree of the namespace,
 * also on disk, and what comes before is shared with sequences without an adapter, with their recurrent states.
 */
#include "daemon/model/items.h"
#include <stdint.h>

struct seq;

struct seq_adapter {
    uint32_t number;       /* of the backend's (struct batch_entry); 0: none */
    float scale;           /* not 0 */
    uint32_t from;         /* the first item of the prompt that is computed with it */
    uint8_t digest[16];    /* of the adapter and the scale */
    int32_t *ids;          /* [n] seq_items(), with ITEM_EMBD at the item of the run */
    struct item_run *runs; /* [n_runs] theirs, and that run */
    uint32_t n, cap, n_runs;
    uint64_t shifted; /* of the context, when they were made */
};

/* Follow the items of @s, which has an adapter or none, after they have changed. 0 or -ENOMEM. */
int seq_adapted_follow(struct seq *s);
void seq_adapted_fini(struct seq_adapter *a);

/* The position in seq_items() of the first one with the adapter; UINT32_MAX: there is no adapter. */
uint32_t seq_adapted_from(const struct seq *s);

/* seq_items() as the cache knows them. */
struct items seq_cache_items(const struct seq *s);

/* SPDX-License-Identifier: MIT */
#pragma once
/* The runs of embeddings of a prompt. */
#include "daemon/model/embedding-values.h"
#include "daemon/model/items.h"

/* Runs, each with its embeddings. {0} is empty. */
struct run_list {
    struct item_run *runs;    /* [n] whole runs, ascending */
    struct embeddings **embd; /* [n] held; NULL: they are not at hand, so that only KV in the cache has them */
    uint32_t n, cap;
};

/* Append a run behind all others; the list takes a reference of its own on @e (NULL: not at hand). 0 or -ENOMEM. */
int run_list_add(struct run_list *l, const struct item_run *run, struct embeddings *e);
/* Append the runs of @from that lie in positions [begin, end), at positions that are lower by @back. None is cut there.
 * 0 or -ENOMEM. */
int run_list_copy(struct run_list *l, const struct run_list *from, uint64_t begin, uint64_t end, uint64_t back);
void run_list_fini(struct run_list *l);

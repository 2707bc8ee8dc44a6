/* SPDX-License-Identifier: MIT */
#include "daemon/sequence/embeddings.h"
#include "libcommon/error.h"
#include <assert.h>
#include <stdlib.h>

static int reserve(struct run_list *l)
{
    if (l->n < l->cap) return 0;
    uint32_t cap = l->cap ? 2 * l->cap : 4;
    struct item_run *runs = reallocarray(l->runs, cap, sizeof(*runs));
    if (!runs) return -ENOMEM;
    l->runs = runs;
    struct embeddings **embd = reallocarray(l->embd, cap, sizeof(struct embeddings *));
    if (!embd) return -ENOMEM;
    l->embd = embd;
    l->cap = cap;
    return 0;
}

int run_list_add(struct run_list *l, const struct item_run *run, struct embeddings *e)
{
    assert(run->n > 0 && run->offset == 0 && (!e || e->n == run->n));
    assert(l->n == 0 || l->runs[l->n - 1].at + l->runs[l->n - 1].n <= run->at);
    if (reserve(l) < 0) return -ENOMEM;
    l->runs[l->n] = *run;
    l->embd[l->n++] = embeddings_ref(e);
    return 0;
}

int run_list_copy(struct run_list *l, const struct run_list *from, uint64_t begin, uint64_t end, uint64_t back)
{
    for (uint32_t i = 0; i < from->n; i++) {
        struct item_run run = from->runs[i];
        if (run.at < begin || run.at >= end) continue;
        assert((uint64_t)run.at + run.n <= end);
        run.at -= (uint32_t)back;
        if (run_list_add(l, &run, from->embd[i]) < 0) return -ENOMEM;
    }
    return 0;
}

void run_list_fini(struct run_list *l)
{
    for (uint32_t i = 0; i < l->n; i++) embeddings_unref(l->embd[i]);
    free(l->runs);
    free(l->embd);
    *l = (struct run_list){0};
}

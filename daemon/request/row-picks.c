/* SPDX-License-Identifier: MIT */
#include "daemon/request/row-picks.h"
#include "daemon/sample/sampling.h"
#include <errno.h>
#include <stdlib.h>

#define ALONE_PICKS 2 /* are not worth another thread */

static void free_scratch(struct row_picks *x)
{
    for (uint32_t i = 0; x->scratch && i < x->threads; i++) sample_scratch_free(x->scratch[i]);
    free(x->scratch);
    x->scratch = NULL;
}

int row_picks_init(struct row_picks *x, size_t runs)
{
    x->list = calloc(runs, sizeof(*x->list));
    return x->list ? 0 : -ENOMEM;
}

void row_picks_fini(struct row_picks *x)
{
    free_scratch(x);
    free(x->list);
    *x = (struct row_picks){0};
}

/* The memory of each thread. False: there is none, and answers pick as they advance. */
static bool make_scratch(struct row_picks *x, const struct core *core)
{
    if (x->scratch) return true;
    x->threads = core->model.backend->config.threads;
    x->scratch = calloc(x->threads, sizeof(struct sample_scratch *));
    for (uint32_t i = 0; x->scratch && i < x->threads; i++)
        if (sample_scratch_new(&x->scratch[i], core->model.vocab) < 0) free_scratch(x);
    return x->scratch;
}

static void pick(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct row_picks *x = ctx;
    for (uint32_t i = begin; i < end; i++) {
        struct row_pick *p = &x->list[i];
        if (!p->s) continue;
        p->id = sampling_foresee(&p->s->sampling, x->scratch[thread], p->logits, p->s->prompt.tokens.ids,
                                 p->s->prompt.tokens.n);
    }
}

void row_picks_run(struct row_picks *x, const struct core *core)
{
    struct backend *b = core->model.backend;
    size_t picks = 0;
    for (size_t i = 0; i < x->n; i++) picks += x->list[i].s != NULL;
    if (picks <= ALONE_PICKS || !b->ops->share || b->config.threads < 2 || !make_scratch(x, core)) return;
    b->ops->share(b, pick, x, (uint32_t)x->n, 1);
}

struct logits row_picks_at(const struct row_picks *x, size_t i)
{
    const struct row_pick *p = &x->list[i];
    struct logits row = p->logits;
    if (p->id >= 0) row.picked = &p->id;
    return row;
}

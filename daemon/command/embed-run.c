/* SPDX-License-Identifier: MIT */
/* The steps of hobd embed. */
#include "daemon/command/embed-texts.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

struct run {
    struct tool *l;
    const struct embed_texts *t;
    enum pooling kind, pooled; /* pooled: what makes the head's row */
    embed_row_fn *fn;
    void *ctx;
    float *hidden; /* [batch_tokens][dim] */
    float *row;    /* [outputs, or dim] */
    double *sums;  /* [dim] */
    uint8_t *want; /* [batch_tokens] */
    struct batch_entry *entries;
    uint32_t *blocks; /* of a sequence of ctx tokens */
};

/* Mark the tokens of a text of @all, from @at on, whose rows are read. Returns how many of @n. */
static uint32_t mark(const struct run *x, uint8_t *want, uint32_t at, uint32_t n, uint32_t all)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < n; i++) {
        const bool reads = pooling_reads(x->pooled, false, at + i, all);
        want[i] = reads ? WANT_HIDDEN : WANT_NOTHING;
        rows += reads;
    }
    return rows;
}

/* Hand the row of text @index over: of its @n rows that were read, or of the sums of @n rows. */
static int give(const struct run *x, size_t index, float *rows, uint32_t n)
{
    struct backend *b = x->l->backend;
    const uint32_t dim = b->hparams.dim;
    if (x->kind == POOLING_NONE) return x->fn(x->ctx, index, rows, n);
    if (x->pooled == POOLING_MEAN)
        pooling_mean(x->row, x->sums, n, dim);
    else
        memcpy(x->row, rows, dim * sizeof(*rows));
    int r = b->ops->head(b, x->kind, x->row, 1, x->row);
    return r ? r : x->fn(x->ctx, index, x->row, 1);
}

static int give_whole(const struct run *x, size_t index, float *rows, uint32_t n)
{
    const uint32_t dim = x->l->hparams.dim;
    memset(x->sums, 0, dim * sizeof(*x->sums));
    if (x->pooled == POOLING_MEAN) pooling_add(x->sums, rows, n, dim);
    return give(x, index, rows, n);
}

/* As many texts from @first on as a step holds; returns how many, or -errno. */
static int step_of_texts(const struct run *x, size_t first)
{
    struct backend *b = x->l->backend;
    const uint32_t most = b->config.batch_tokens;
    uint32_t n = 0, texts = 0;
    for (size_t i = first; i < x->t->n && x->t->list[i].n <= most - n; i++, texts++) {
        const struct embed_text *t = &x->t->list[i];
        x->entries[texts] = (struct batch_entry){
            .n = t->n, .tokens = t->ids, .whole = true, .types = x->l->hparams.embedding.types ? t->types : NULL};
        mark(x, x->want + n, 0, t->n, t->n);
        x->entries[texts].want = x->want + n;
        n += t->n;
    }
    if (!texts)
        return error_say(-E2BIG, "text %zu has %u tokens; a step of %u must hold it (--batch)", first + 1,
                         x->t->list[first].n, most);
    int r = b->ops->forward(b, x->entries, texts, NULL, x->hidden);
    float *rows = x->hidden;
    for (uint32_t i = 0; !r && i < texts; i++) {
        uint32_t read = mark(x, x->want, 0, x->entries[i].n, x->entries[i].n);
        r = give_whole(x, first + i, rows, read);
        rows += (size_t)read * b->hparams.dim;
    }
    return r ? r : (int)texts;
}

/* Text @index of a causal model, in as many steps as it needs. */
static int steps_of_text(const struct run *x, size_t index)
{
    struct backend *b = x->l->backend;
    const struct embed_text *t = &x->t->list[index];
    const uint32_t *tables[KV_GROUPS_MAX] = {x->blocks};
    uint32_t rows = 0;
    memset(x->sums, 0, b->hparams.dim * sizeof(*x->sums));
    for (uint32_t at = 0, n; at < t->n; at += n) {
        n = t->n - at < b->config.batch_tokens ? t->n - at : b->config.batch_tokens;
        const uint32_t read = mark(x, x->want, at, n, t->n);
        const struct batch_entry e = {.blocks = tables, .pos = at, .n = n, .tokens = t->ids + at, .want = x->want};
        int r = b->ops->forward(b, &e, 1, NULL, x->hidden);
        if (r) return r;
        if (x->pooled == POOLING_MEAN) pooling_add(x->sums, x->hidden, read, b->hparams.dim);
        if (x->kind == POOLING_NONE) r = give(x, index, x->hidden, read);
        if (r) return r;
        rows += read;
    }
    return x->kind == POOLING_NONE ? 0 : give(x, index, x->hidden, rows);
}

static int check(const struct run *x)
{
    const uint32_t ctx = x->l->backend->config.ctx;
    for (size_t i = 0; i < x->t->n; i++)
        if (x->t->list[i].n > ctx)
            return error_say(-E2BIG, "text %zu has %u tokens; the model's context is %u", i + 1, x->t->list[i].n, ctx);
    return 0;
}

int embed_run(struct tool *l, const struct embed_texts *t, enum pooling kind, embed_row_fn *fn, void *ctx)
{
    const struct backend *b = l->backend;
    const size_t n = b->config.batch_tokens, dim = b->hparams.dim, blocks = b->config.ctx / KV_BLOCK + 1;
    const size_t row = dim > b->hparams.embedding.labels ? dim : b->hparams.embedding.labels;
    _cleanup_(freep) float *hidden = malloc((n + 1) * dim * sizeof(float)), *out = malloc(row * sizeof(float));
    _cleanup_(freep) double *sums = malloc(dim * sizeof(double));
    _cleanup_(freep) struct batch_entry *entries = malloc(n * sizeof(*entries));
    _cleanup_(freep) uint32_t *table = malloc(blocks * sizeof(*table));
    _cleanup_(freep) uint8_t *want = malloc(n);
    if (!hidden || !out || !sums || !entries || !table || !want) return error_origin(-ENOMEM);
    for (uint32_t i = 0; i < blocks; i++) table[i] = i;
    const struct run x = {l,    t,       kind, hparams_pooled(&b->hparams, kind), fn, ctx, hidden, out, sums,
                          want, entries, table};
    int r = check(&x);
    for (size_t i = 0; r >= 0 && i < t->n; i += b->hparams.embedding.whole ? (size_t)r : 1)
        r = b->hparams.embedding.whole ? step_of_texts(&x, i) : steps_of_text(&x, i);
    return r < 0 ? r : 0;
}

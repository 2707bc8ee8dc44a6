/* SPDX-License-Identifier: MIT */
#include "daemon/sample/chain.h"
#include "daemon/sample/candidates.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Words of a bit for each block, at least one. */
static size_t copied_words(uint32_t vocab)
{
    return logits_blocks(vocab) / 64 + 1;
}

int sample_scratch_new(struct sample_scratch **out, uint32_t vocab)
{
    struct sample_scratch *x = calloc(1, sizeof(*x));
    if (!x) return -ENOMEM;
    x->vocab = vocab;
    x->row = calloc(vocab, sizeof(*x->row));
    x->copied = calloc(copied_words(vocab), sizeof(*x->copied));
    x->peaks = calloc(logits_blocks(vocab), sizeof(*x->peaks));
    x->counts = calloc(vocab, sizeof(*x->counts));
    x->cands = calloc(vocab, sizeof(*x->cands));
    x->order = calloc(vocab, sizeof(*x->order));
    if (!x->row || !x->copied || !x->peaks || !x->counts || !x->cands || !x->order) {
        sample_scratch_free(x);
        return -ENOMEM;
    }
    *out = x;
    return 0;
}

struct sample_scratch *sample_scratch_free(struct sample_scratch *x)
{
    if (!x) return NULL;
    free(x->row);
    free(x->copied);
    free(x->peaks);
    free(x->counts);
    free(x->cands);
    free(x->order);
    free(x);
    return NULL;
}

/* Makes the logits of the tokens that are not allowed -INFINITY. */
static void ban_others(const struct logits_row *row, float *logits)
{
    for (uint32_t i = 0; i < row->vocab; i += 64) {
        uint64_t bits = i / 64 < row->allowed_words ? row->allowed[i / 64] : 0;
        uint32_t n = row->vocab - i < 64 ? row->vocab - i : 64;
        for (uint32_t k = 0; k < n; k++)
            if (!(bits >> k & 1)) logits[i + k] = -INFINITY;
    }
}

static size_t block_bytes(const struct logits_row *row, size_t b)
{
    const size_t left = row->vocab - b * LOGITS_BLOCK;
    return (left < LOGITS_BLOCK ? left : LOGITS_BLOCK) * sizeof(float);
}

static void copy_block(const struct logits_row *row, size_t b)
{
    uint64_t *word = &row->scratch->copied[b / 64], bit = UINT64_C(1) << b % 64;
    if (!(*word & bit))
        memcpy(row->scratch->row + b * LOGITS_BLOCK, row->logits + b * LOGITS_BLOCK, block_bytes(row, b));
    *word |= bit;
}

float *logits_write(struct logits_row *row)
{
    float *own = row->scratch->row;
    const size_t n = row->logits == own ? 0 : logits_blocks(row->vocab);
    for (size_t b = 0; b < n; b++) copy_block(row, b);
    memset(row->scratch->copied, 0, copied_words(row->vocab) * sizeof(*row->scratch->copied));
    row->logits = own;
    row->peaks = NULL;
    if (row->allowed) ban_others(row, own);
    row->allowed = NULL;
    return own;
}

float logits_get(const struct logits_row *row, uint32_t id)
{
    return logits_block(row, id / LOGITS_BLOCK)[id % LOGITS_BLOCK];
}

void logits_set(struct logits_row *row, uint32_t id, float logit)
{
    if (row->logits != row->scratch->row) copy_block(row, id / LOGITS_BLOCK);
    row->scratch->row[id] = logit;
}

void logits_allow(struct logits_row *row, const uint64_t *mask, size_t words)
{
    if (row->allowed) logits_write(row);
    row->allowed = mask;
    row->allowed_words = words;
}

void logits_chain_fini(struct logits_chain *c)
{
    for (struct logits_processor *p = c->first, *next; p; p = next) {
        next = p->next;
        p->ops->free(p);
    }
    c->first = NULL;
}

void logits_chain_add(struct logits_chain *c, struct logits_processor *p)
{
    struct logits_processor **at = &c->first;
    while (*at && !(*at)->ops->samples) at = &(*at)->next;
    p->next = *at;
    *at = p;
}

int logits_chain_clone(const struct logits_chain *c, struct logits_chain *out)
{
    struct logits_processor **at = &out->first;
    for (const struct logits_processor *p = c->first; p; p = p->next) {
        int r = p->ops->clone(p, at);
        if (r < 0) {
            *at = NULL;
            logits_chain_fini(out);
            return r;
        }
        at = &(*at)->next;
        *at = NULL;
    }
    return 0;
}

int logits_not_numbers(void)
{
    return error_say(-EIO, "the model's output is not a number");
}

int logits_chain_pick(struct logits_chain *c, struct sample_scratch *x, struct logits logits,
                      const struct logits_history *h, double u, int32_t *id)
{
    struct logits_row row = {
        .logits = logits.row, .peaks = logits.peaks, .vocab = x->vocab, .u = u, .picked = -1, .scratch = x};
    memset(x->copied, 0, copied_words(x->vocab) * sizeof(*x->copied));
    for (struct logits_processor *p = c->first; p; p = p->next) {
        int r = p->ops->apply(p, &row, h);
        if (r < 0) return r;
    }
    if (row.picked < 0 || !isfinite(logits.row[row.picked])) return logits_not_numbers();
    *id = row.picked;
    return 0;
}

int logits_chain_accept(struct logits_chain *c, int32_t token)
{
    for (struct logits_processor *p = c->first; p; p = p->next) {
        int r = p->ops->accept ? p->ops->accept(p, token) : 0;
        if (r == 0) continue;
        for (struct logits_processor *q = c->first; q != p; q = q->next)
            if (q->ops->rollback) q->ops->rollback(q, 1);
        return r;
    }
    return 0;
}

void logits_chain_rollback(struct logits_chain *c, size_t n)
{
    for (struct logits_processor *p = c->first; n && p; p = p->next)
        if (p->ops->rollback) p->ops->rollback(p, n);
}

/* SPDX-License-Identifier: MIT */
#include "daemon/request/logits-rows.h"
#include "kernels/kernels.h"
#include "libcommon/error.h"
#include <stdlib.h>

#define PART_BLOCKS 128 /* of an item for a thread: 8,192 logits */
#define ALONE_ITEMS 8   /* are not worth another thread */

int logits_rows_reserve(struct logits_rows *x, const struct backend *b, uint32_t vocab, size_t n)
{
    size_t bytes, stride = b->hparams.vocab;
    if (n <= x->cap) return 0;
    if (__builtin_mul_overflow(n, stride * sizeof(*x->logits), &bytes) || bytes > SIZE_MAX - KERN_ALIGN)
        return error_say(-ENOMEM, "no memory for %zu rows of logits", n);
    float *logits = aligned_alloc(KERN_ALIGN, kern_align(bytes)); /* the backend writes rows with vector stores */
    float *peaks = calloc(n, logits_blocks(vocab) * sizeof(*peaks));
    if (!logits || !peaks) {
        free(logits);
        free(peaks);
        return error_say(-ENOMEM, "no memory for %zu rows of logits (%zu bytes)", n, bytes);
    }
    logits_rows_fini(x);
    *x = (struct logits_rows){logits, peaks, n, stride, vocab};
    return 0;
}

void logits_rows_fini(struct logits_rows *x)
{
    free(x->logits);
    free(x->peaks);
    *x = (struct logits_rows){0};
}

static size_t parts(const struct logits_rows *x)
{
    return (logits_blocks(x->vocab) + PART_BLOCKS - 1) / PART_BLOCKS;
}

/* Items are parts of rows. */
static void peaks(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct logits_rows *x = ctx;
    const size_t n = parts(x), blocks = logits_blocks(x->vocab);
    for (size_t i = begin; i < end; i++) {
        const size_t row = i / n, from = i % n * PART_BLOCKS, to = from + PART_BLOCKS;
        logits_peaks(x->peaks + row * blocks, x->logits + row * x->stride, x->vocab, from, to < blocks ? to : blocks);
    }
}

void logits_rows_peaks(struct logits_rows *x, struct backend *b, size_t n)
{
    const uint32_t items = (uint32_t)(n * parts(x));
    if (b->ops->share)
        b->ops->share(b, peaks, x, items, ALONE_ITEMS);
    else
        peaks(x, 0, items, 0);
}

struct logits logits_rows_at(const struct logits_rows *x, size_t i)
{
    return (struct logits){.row = x->logits + i * x->stride, .peaks = x->peaks + i * logits_blocks(x->vocab)};
}

struct logits logits_rows_next(const struct logits_rows *x, struct logits row)
{
    return (struct logits){.row = row.row + x->stride, .peaks = row.peaks + logits_blocks(x->vocab)};
}

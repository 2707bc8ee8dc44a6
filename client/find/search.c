/* SPDX-License-Identifier: MIT */
#include "client/find/search.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <pthread.h>
#include <string.h>

#define ROWS_FOR_TWO 8192 /* under this, starting a thread takes longer than it saves */

/* The best rows of some blocks: a heap whose first element is the worst of them. */
struct share {
    const struct search *search;
    uint64_t from, to; /* blocks */
    struct hit *heap;  /* [most] */
    unsigned n, most;
};

static bool better(const struct hit *a, const struct hit *b)
{
    return a->score > b->score || (a->score == b->score && a->row < b->row);
}

static void swap(struct hit *a, struct hit *b)
{
    struct hit t = *a;
    *a = *b;
    *b = t;
}

static void sink(struct hit *heap, unsigned n, unsigned i)
{
    for (unsigned child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && better(&heap[child], &heap[child + 1])) child++;
        if (!better(&heap[i], &heap[child])) return;
        swap(&heap[i], &heap[child]);
    }
}

static void offer(struct share *s, struct hit h)
{
    if (s->n == s->most) {
        if (!better(&h, s->heap)) return;
        s->heap[0] = h;
        sink(s->heap, s->n, 0);
        return;
    }
    unsigned i = s->n++;
    s->heap[i] = h;
    for (; i > 0 && better(&s->heap[(i - 1) / 2], &s->heap[i]); i = (i - 1) / 2)
        swap(&s->heap[(i - 1) / 2], &s->heap[i]);
}

static void *scan(void *ctx)
{
    struct share *s = ctx;
    const struct search *o = s->search;
    const size_t stride = vector_stride(o->file->dim);
    for (uint64_t b = s->from; b < s->to; b++) {
        int32_t sums[VECTOR_BLOCK];
        const float *scales = vector_scales(o->file, b);
        uint64_t left = o->rows - b * VECTOR_BLOCK;
        size_t n = left < VECTOR_BLOCK ? (size_t)left : VECTOR_BLOCK;
        o->dot_rows(sums, vector_codes(o->file, b), stride, n, o->codes, stride);
        for (size_t i = 0; i < n; i++) {
            double score = (double)sums[i] * ((double)scales[i] * (double)o->scale);
            if (scales[i] > 0) offer(s, (struct hit){b * VECTOR_BLOCK + i, score});
        }
    }
    return NULL;
}

static int by_rank(const void *a, const void *b)
{
    return better(a, b) ? -1 : better(b, a);
}

int search_run(const struct search *s, struct hit *hits, unsigned most)
{
    const uint64_t blocks = (s->rows + VECTOR_BLOCK - 1) / VECTOR_BLOCK;
    const uint64_t half = s->threads > 1 && s->rows >= ROWS_FOR_TWO ? blocks / 2 : 0;
    _cleanup_(freep) struct hit *heap = calloc(2 * (size_t)most, sizeof(*heap));
    if (!heap) return error_say(-ENOMEM, "no memory for the search");
    struct share first = {s, 0, half, heap, 0, most}, second = {s, half, blocks, heap + most, 0, most};
    pthread_t thread;
    bool started = half > 0 && pthread_create(&thread, NULL, scan, &first) == 0;
    if (half > 0 && !started) scan(&first);
    scan(&second);
    if (started) pthread_join(thread, NULL);
    memmove(heap + first.n, second.heap, second.n * sizeof(*heap));
    unsigned n = first.n + second.n;
    qsort(heap, n, sizeof(*heap), by_rank);
    if (n > most) n = most;
    memcpy(hits, heap, n * sizeof(*hits));
    return (int)n;
}

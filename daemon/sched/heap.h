/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to the scheduler: a binary heap in an array, the smallest (key, tie) on top. */
#include <stdbool.h>
#include <stdint.h>

struct sched_item {
    uint64_t key, tie;
    uint32_t index;
};

static inline bool sched_item_less(const struct sched_item *a, const struct sched_item *b)
{
    return a->key != b->key ? a->key < b->key : a->tie < b->tie;
}

/* Restore the heap after h[i] has increased. */
static inline void sched_heap_down(struct sched_item *h, uint32_t n, uint32_t i)
{
    struct sched_item x = h[i];
    for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && sched_item_less(&h[child + 1], &h[child])) child++;
        if (!sched_item_less(&h[child], &x)) break;
        h[i] = h[child];
    }
    h[i] = x;
}

static inline void sched_heap_make(struct sched_item *h, uint32_t n)
{
    for (uint32_t i = n / 2; i-- > 0;) sched_heap_down(h, n, i);
}

/* Remove the top. Returns the number of items left. */
static inline uint32_t sched_heap_pop(struct sched_item *h, uint32_t n)
{
    h[0] = h[--n];
    if (n) sched_heap_down(h, n, 0);
    return n;
}

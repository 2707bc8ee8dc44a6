/* SPDX-License-Identifier: MIT */
#pragma once
/* Items as numbers, for tests: equal items have equal numbers. A number from CODE_RUN on is an item of a run. */
#include "daemon/model/items.h"

#define CODED_ITEMS 128
#define CODE_RUN    1000000
#define CODE_PLACES 1000 /* items of a run */
#define CODE_RUNS   4    /* 0, 1, 2: images; 3: sound with the digest of 0 */

/* Item @i of run @run. */
static inline int32_t code_of(int32_t run, uint32_t i)
{
    return CODE_RUN + run * CODE_PLACES + (int32_t)i;
}

struct coded {
    int32_t ids[CODED_ITEMS];
    struct item_run runs[CODED_ITEMS];
};

/* The items of codes[n], n <= CODED_ITEMS; valid as long as *c. */
struct items coded_items(struct coded *c, const int32_t *codes, uint32_t n);
/* The codes of @t, which has no item after CODED_ITEMS. */
void coded_from(const struct items *t, int32_t *codes);

/* SPDX-License-Identifier: MIT */
#pragma once
/* Vectors without a daemon: the same for the same text, near for texts with common words. */
#include "client/find/embedder.h"

struct stand_in {
    struct embedder e;
    uint32_t dim;
    size_t texts;      /* embedded so far */
    size_t fail_after; /* fail with -ECANCELED once so many were; 0: never */
    uint64_t seed;     /* another one is another model */
};

void stand_in_init(struct stand_in *s, uint32_t dim);
/* The vector [dim] of a text. */
void stand_in_vector(const struct stand_in *s, float *x, const char *text, size_t len);

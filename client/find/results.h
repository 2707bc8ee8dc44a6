/* SPDX-License-Identifier: MIT */
#pragma once
/* What a search found, as files and lines. */
#include "client/find/index.h"
#include "client/find/words.h"

struct result {
    char *path; /* in the folder of the index; owned */
    double score;
    uint32_t first, last; /* lines of the chunk */
    char *text;           /* [len] the file as it is now, owned; NULL: it cannot be read */
    size_t len;
    struct line line; /* the best one; points into text */
    bool changed;     /* the file changed after it was indexed */
};

struct results {
    struct result *all; /* [n], owned, best first */
    size_t n;
    uint64_t changed, gone; /* files among those found that changed since, and that cannot be read any more */
    uint64_t rows;          /* compared */
    uint64_t search_usec;   /* the comparison alone */
};

enum { RESULTS_MOST = 1000 };

/* Find the chunks nearest to the question's vector @v [x->meta.dim] until there are @most places, and read their files.
 * The same line is given once. Call results_fini in any case. 0 or -errno; sets the error message. */
int results_find(struct results *out, struct index *x, const float *v, const struct words *w, unsigned most);
void results_fini(struct results *r);

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The rows of a vector file that are nearest to a vector: all rows are compared, so none is missed.
 *
 * score = f64(isum) * (f64(scale of the row) * f64(scale of the vector)), isum the exact int32 sum of the products of
 * codes: about the cosine. Higher scores come first, equal ones by row. The result depends neither on the number of
 * threads nor on the instruction set.
 */
#include "client/find/vector-file.h"
#include "libcommon/dot-rows.h"

struct hit {
    uint64_t row;
    double score;
};

struct search {
    const struct vector_file *file; /* mapped */
    uint64_t rows;
    const int8_t *codes; /* [vector_stride], of the vector that is looked for */
    float scale;
    dot_rows_fn *dot_rows;
    unsigned threads; /* 1 or 2; a second one is not used for few rows */
};

/* Write the best @most rows to @hits, best first. Rows of scale 0 are never among them. Returns their number, or
 * -ENOMEM.
 */
int search_run(const struct search *s, struct hit *hits, unsigned most);

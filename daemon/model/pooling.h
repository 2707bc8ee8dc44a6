/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * From the rows that a model gives for the tokens of a text (WANT_HIDDEN) to one vector: pooling, truncation and
 * normalisation. Pure functions; the order of their sums is in kernels/ARITHMETIC.md.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The values of the key pooling_type. */
enum pooling {
    POOLING_NONE, /* no vector of the text: one of each token */
    POOLING_MEAN, /* of all tokens */
    POOLING_CLS,  /* the first token's */
    POOLING_LAST, /* the last token's */
    POOLING_RANK, /* the scores that a classifier gives to one token's vector (hparams_embedding.of_last) */
    POOLING_KINDS
};

/* "none", "mean", …; of static storage. NULL for a value that is not a kind. */
const char *pooling_name(uint32_t kind);

/* The kind of a name. False: there is no such kind. */
bool pooling_find(enum pooling *out, const char *name);

/* Pooling reads the row of token @i of a text of @n; for RANK that of the first, or with @last of the last. What it
 * does not read need not be asked of the backend. */
bool pooling_reads(enum pooling kind, bool last, uint64_t i, uint64_t n);

/* Mean. Add the rows [@n][@dim] of consecutive tokens to the sums [@dim], which are 0 before the first token. How a
 * text is cut into calls changes no bit. */
void pooling_add(double *sums, const float *rows, size_t n, uint32_t dim);

/* @out [@dim] = the mean of the @n > 0 rows that were added to @sums. */
void pooling_mean(float *out, const double *sums, uint64_t n, uint32_t dim);

/* Make the first @dims values of @v the vector of the text: divided by their length, unless all are 0, if @normalize.
 * Truncating comes first: a vector of a model that was trained for it (Matryoshka representation learning,
 * https://arxiv.org/abs/2205.13147) keeps its meaning in its first values. */
void pooling_finish(float *v, uint32_t dims, bool normalize);

/* The cosine of the angle between two vectors [@dim], in double; 0 if one of them is 0. */
double pooling_cosine(const float *a, const float *b, uint32_t dim);

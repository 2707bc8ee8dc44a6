/* SPDX-License-Identifier: MIT */
#pragma once
/* Candidates of a row, sorted by falling logit: shared by the samplers. */
#include "daemon/sample/chain.h"

struct candidate {
    float logit;
    int32_t id;
};

struct sample_scratch {
    uint32_t vocab;
    float *row;              /* [vocab] the copy that logits_write() makes, or logits_set() of single blocks: */
    uint64_t *copied;        /* [logits_blocks(vocab) bits] those; a word more */
    float *peaks;            /* [logits_blocks(vocab)] where the row has none */
    uint32_t *counts;        /* [vocab] zero between uses */
    struct candidate *cands; /* [vocab] */
    struct candidate *order; /* [vocab] keys to sort by, with indices into cands */
    size_t n;                /* of cands */
};

/* The logits of block @b as the processors so far left them. */
static inline const float *logits_block(const struct logits_row *row, size_t b)
{
    const bool copied = row->scratch->copied[b / 64] >> b % 64 & 1;
    return (copied ? row->scratch->row : row->logits) + b * LOGITS_BLOCK;
}

/* Sorts @h [n] by falling logit; equal ones by rising id. */
void candidates_sort(struct candidate *h, size_t n);

/* The scratch's candidates become the @k largest logits of @row (0: all) that are numbers above -inf, sorted. */
void candidates_top(const struct logits_row *row, uint32_t k);

/* The id of the largest logit; of equal ones the lowest. -1: none is a number above -inf. */
int32_t candidates_largest(const struct logits_row *row);

/* The first candidate whose cumulated probability exceeds @u, among @n sorted ones, at least one. */
const struct candidate *candidates_draw(const struct candidate *h, size_t n, double u);

/* SPDX-License-Identifier: MIT */
#pragma once
/* The rows of logits of a step, and their peaks (sample/chain.h). */
#include "daemon/model/backend.h"
#include "daemon/sample/chain.h"

struct logits_rows {
    float *logits; /* [cap][hparams.vocab] */
    float *peaks;  /* [cap][logits_blocks(vocab)] */
    size_t cap;
    size_t stride;  /* hparams.vocab */
    uint32_t vocab; /* tokens that have a text; at most the stride */
};

/* Room for @n rows of the model of @b, which has @vocab tokens. Zero at first. 0; -ENOMEM and the error message, and
 * the room is as before. */
int logits_rows_reserve(struct logits_rows *x, const struct backend *b, uint32_t vocab, size_t n);
void logits_rows_fini(struct logits_rows *x);

/* Compute the peaks of the first @n rows, with the threads of @b if it has some. Not while forward runs. */
void logits_rows_peaks(struct logits_rows *x, struct backend *b, size_t n);

/* The row @i, of which the peaks are computed, and the one behind @row. */
struct logits logits_rows_at(const struct logits_rows *x, size_t i);
struct logits logits_rows_next(const struct logits_rows *x, struct logits row);

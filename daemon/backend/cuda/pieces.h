/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Pieces of a large batch: while a device computes the layers of one, the next device computes those of the piece
 * before it. No bit depends on how tokens are cut into batches.
 */
#include "daemon/model/backend.h"
#include <stddef.h>

#define CUDA_PIECE_TOKENS 512 /* least tokens of a piece: fewer take hardly less time */

struct cuda_pieces {
    const struct batch_entry *e; /* [n] the batch */
    size_t n;
    uint32_t dim;             /* of a row of embd */
    size_t entry;             /* the next piece begins with this entry, */
    uint32_t token;           /* from this token on */
    struct batch_entry *part; /* [tokens] the entries of a piece */
    struct state_save *saves; /* [tokens] theirs */
    size_t logits, hidden;    /* tokens of the last piece of which these are wanted */
};

/* Tokens of each piece of a batch of @tokens for @devices devices; 0: all. */
uint32_t cuda_piece_tokens(uint32_t tokens, uint32_t devices);

/* Write the next piece, of about @tokens tokens, to @p->part: the number of its entries; 0: there is none. Runs whose
 * items see each other are not cut. */
size_t cuda_next_piece(struct cuda_pieces *p, uint32_t tokens);

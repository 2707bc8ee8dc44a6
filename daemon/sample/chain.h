/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Logits processors. A chain of them turns one row of logits into a token: each processor may change the row, and the
 * last one, the sampler, picks an id. Applying a chain changes no state of it: the same row, history, accepted tokens
 * and random number give the same token.
 *
 * A new processor (a grammar mask, for example) embeds struct logits_processor as its first member, fills in the ops
 * and is added with logits_chain_add().
 */
#include "daemon/model/items.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOGITS_BLOCK 64 /* logits of a row that share a peak */

struct sample_scratch;

/* Blocks of a row; the last may be smaller. */
static inline size_t logits_blocks(uint32_t vocab)
{
    return (vocab + (size_t)LOGITS_BLOCK - 1) / LOGITS_BLOCK;
}

/* Fill peaks[i] for the blocks i of [begin, end): the largest logit of the block, NaN passed over; -INFINITY: it has no
 * number above that. */
void logits_peaks(float *peaks, const float *logits, uint32_t vocab, size_t begin, size_t end);

/* One row on its way through a chain. */
struct logits_row {
    const float *logits; /* [vocab] as the processors so far left them; logits_write() makes them writable, and
                          * logits_set() changes single ones in a copy of their block */
    const float *peaks;  /* [logits_blocks(vocab)] of the model's logits, while @logits are these; NULL: not known */
    uint32_t vocab;
    const uint64_t *allowed; /* [allowed_words] of logits_allow(): the logits of other tokens count as -INFINITY. NULL:
                              * those of none */
    size_t allowed_words;
    double u;       /* uniform in [0, 1): the random number of this position */
    int32_t picked; /* by the sampler; -1: no logit is a number */
    struct sample_scratch *scratch;
};

/* The items before the row: prompt and answer so far. */
struct logits_history {
    const int32_t *ids; /* [n]; ITEM_EMBD is no token */
    size_t n;
};

/* The logits of @row, [vocab], which a processor may change. The first call copies the model's row. Those of tokens
 * that are not allowed are -INFINITY. */
float *logits_write(struct logits_row *row);
/* The logit of token @id < vocab, and another one in its place, for a processor that changes few. */
float logits_get(const struct logits_row *row, uint32_t id);
void logits_set(struct logits_row *row, uint32_t id, float logit);
/* Makes the logits of all tokens -INFINITY but of those whose bit in @mask [@words] is set: bit i is token i, and
 * tokens behind the last word have none. The row borrows @mask until its token is picked, so that a sampler looks only
 * at the tokens that are allowed. */
void logits_allow(struct logits_row *row, const uint64_t *mask, size_t words);

struct logits_processor;

struct logits_processor_ops {
    const char *name;
    bool samples; /* sets row->picked: the last processor of a chain */
    /* Change or read the row. 0 or a negative errno with an error message. */
    int (*apply)(struct logits_processor *p, struct logits_row *row, const struct logits_history *h);
    /* @token joins the answer. 0; -EAGAIN: the processor does not take it, and bans it when it is applied again at this
     * place; -ENOMEM or another error. Unless 0, no state but that ban has changed. NULL: the processor keeps no state.
     */
    int (*accept)(struct logits_processor *p, int32_t token);
    /* Undo the last @n accepts, no more than there were. NULL: the processor keeps no state. */
    void (*rollback)(struct logits_processor *p, size_t n);
    /* An equal processor, which the caller owns and which shares nothing with @p. 0 or -ENOMEM. */
    int (*clone)(const struct logits_processor *p, struct logits_processor **out);
    void (*free)(struct logits_processor *p);
};

struct logits_processor {
    const struct logits_processor_ops *ops;
    struct logits_processor *next; /* the chain's */
};

/* {0} is an empty chain. It owns its processors. */
struct logits_chain {
    struct logits_processor *first;
};

void logits_chain_fini(struct logits_chain *c);

/* Takes @p: behind the processors that @c has, but before its sampler. */
void logits_chain_add(struct logits_chain *c, struct logits_processor *p);

/* Fills @out, which was empty. 0; -ENOMEM, and @out is empty. */
int logits_chain_clone(const struct logits_chain *c, struct logits_chain *out);

/* Logits [a vocabulary] of the model, and their peaks, or NULL. Or no row, which is NULL, but the id of its largest
 * logit; -1: that is not a number. */
struct logits {
    const float *row, *peaks;
    int32_t best;
    const int32_t *picked; /* the token that sampling_foresee() has picked from the row; NULL: none */
};

/* Sends the logits of the vocabulary of @x (not changed) through the chain, with the random number @u. Writes *id on 0;
 * -EIO when no logit is a number, or a processor's error: both set the error message. */
int logits_chain_pick(struct logits_chain *c, struct sample_scratch *x, struct logits logits,
                      const struct logits_history *h, double u, int32_t *id);

/* -EIO with the error message of that. */
int logits_not_numbers(void);

/* All processors accept @token. 0; -EAGAIN: pick again; -ENOMEM or another error: none has accepted it. */
int logits_chain_accept(struct logits_chain *c, int32_t token);

/* Undo the last @n accepts. */
void logits_chain_rollback(struct logits_chain *c, size_t n);

/* Scratch memory of one vocabulary, for any number of chains; one thread at a time. */
int sample_scratch_new(struct sample_scratch **out, uint32_t vocab);  /* 0 or -ENOMEM; the caller owns *out */
struct sample_scratch *sample_scratch_free(struct sample_scratch *x); /* NULL ok, returns NULL */

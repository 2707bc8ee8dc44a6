/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The sampling of one answer: its parameters, chain of processors and random numbers. The token of a position depends
 * on the row, the history, the parameters, (seed, answer, position) and the tokens accepted before, on nothing else.
 */
#include "daemon/sample/chain.h"
#include "daemon/sample/params.h"
#include "daemon/sample/processors.h"

/* Set params and seed, then call sampling_start(). {0} owns nothing. */
struct sampling {
    struct sample_params params;
    uint64_t seed;
    uint32_t answer;   /* index among the answers to one prompt */
    uint64_t position; /* tokens of the answer so far */
    struct logits_chain chain;
};

/* Makes the chain. @bias and @ban as for bias_processor_new(). 0; -ENOMEM, and there is no chain. */
int sampling_start(struct sampling *s, const struct sample_bias *bias, size_t n_bias, const int32_t *ban, size_t n_ban);

void sampling_fini(struct sampling *s);

/* @to becomes a copy at the same position that shares nothing with @from. It had no chain. 0; -ENOMEM, and it has none.
 */
int sampling_clone(struct sampling *to, const struct sampling *from);

/* The token is that of the largest logit, whatever the history is: the row itself is not needed. */
bool sampling_is_best(const struct sampling *s);

/* Picks the token of the next position from @logits, of the vocabulary of @x (not changed), and accepts it; without a
 * row, if sampling_is_best(). @history [n_history]: the tokens before, prompt and answer. Writes *id on 0; -EIO (no
 * logit is a number) or a processor's error, with an error message; -ENOMEM. On error the state is unchanged. */
int sampling_pick(struct sampling *s, struct sample_scratch *x, struct logits logits, const int32_t *history,
                  size_t n_history, int32_t *id);

/* The token that the next sampling_pick() will pick from the same row; -1: that will be an error. Several threads may
 * call it at once, each for another answer and with its own @x. */
int32_t sampling_foresee(struct sampling *s, struct sample_scratch *x, struct logits logits, const int32_t *history,
                         size_t n_history);

/* Undo the last @n picks, no more than there were. */
void sampling_rollback(struct sampling *s, size_t n);

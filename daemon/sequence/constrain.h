/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Constrained answers: a logits processor that lets only those tokens be sampled with which the answer can still become
 * a text of a grammar. An end of generation can be sampled only behind such a text.
 *
 * The state is a function of the tokens of the answer and of the parameters here:
 * - Until the channel parser says that the answer begins, tokens are free (thinking, marks of the format), but none
 *   that would end the answer or begin it with other text.
 *   Where the answer or a mark may begin, both can be sampled.
 * - Bytes that must follow are taken as the tokens that the tokenizer makes of them: at such a place exactly one token
 *   is allowed, so that a step can compute several of them (constrain_forced).
 * - With @close the shortest completion of the answer always fits into the tokens that are left, unless the tokens
 *   before the answer leave too few. A token after which it would not is refused, and another one is sampled; after
 *   REFUSED_MAX refusals, and when nothing else is left, the tokens of the shortest completion follow.
 */
#include "daemon/output/channel.h"
#include "daemon/sample/sampling.h"
#include "daemon/text/grammar/grammar.h"
#include "daemon/text/grammar/token-trie.h"

#define CONSTRAIN_NAME "constraint"

struct constrain_config {
    struct grammar *grammar;       /* the processor holds it */
    const struct token_trie *trie; /* of @tokenizer; these three outlive the processor */
    const struct tokenizer *tokenizer;
    const struct channel_format *format; /* NULL: the answer begins with its first token */
    uint32_t max_tokens;                 /* of the answer */
    bool close;
};

/* 0, and the caller owns *out; -EDOM: no answer can be made as it is asked for; -ENOMEM: sets the error message. */
int constrain_new(struct logits_processor **out, const struct constrain_config *c);

/* Writes to @out [max] the tokens that follow next in the answer of @s, whatever the logits are, as far as it knows
 * them; the last of them may be an end of generation that is only likely. Returns how many. Without a constraint: 0. */
uint32_t constrain_forced(const struct sampling *s, int32_t *out, uint32_t max);

/* A copy of the place in the grammar behind the tokens @ids [@n], of which a mask will be asked for: of a
 * constraint, or of calls in a free answer. 1, and the caller
 * owns *out; 0: none will be, or @ids may not follow; -errno. */
int constrain_place(const struct sampling *s, const int32_t *ids, uint32_t n, struct grammar_state **out);

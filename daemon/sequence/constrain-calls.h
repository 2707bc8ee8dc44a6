/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Calls of tools in a free answer: a logits processor that lets the model write what it wants until a call begins, and
 * then only texts of a grammar until the call ends. The state is a function of the tokens of the answer.
 */
#include "daemon/output/channel.h"
#include "daemon/sample/sampling.h"
#include "daemon/text/grammar/grammar.h"
#include "daemon/text/grammar/token-trie.h"

struct constrain_calls_config {
    struct grammar *grammar;       /* the text behind the mark of a call; the processor holds it */
    const struct token_trie *trie; /* of @tokenizer; these three outlive the processor */
    const struct tokenizer *tokenizer;
    const struct channel_format *format; /* with the tools */
};

/* The place in the grammar of which the next token of @s needs a mask, and its vocabulary; NULL: @s is in free text.
 * The processor owns both. */
struct grammar_state *constrain_calls_place(const struct sampling *s, const struct token_trie **trie);

/* 0, and the caller owns *out; or -ENOMEM. */
int constrain_calls_new(struct logits_processor **out, const struct constrain_calls_config *c);

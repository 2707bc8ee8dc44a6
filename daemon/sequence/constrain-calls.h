/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Calls of tools in a free answer: a logits processor that lets the model write what it wants until a call begins, and
 * then only texts of a grammar until the call ends. The state is a function of the tokens of the answer.
 */
#include "daemon/output/channel.h"
#include "daemon/sample/chain.h"
#include "daemon/text/grammar/grammar.h"
#include "daemon/text/grammar/token-trie.h"

struct constrain_calls_config {
    struct grammar *grammar;       /* the text behind the mark of a call; the processor holds it */
    const struct token_trie *trie; /* of @tokenizer; these three outlive the processor */
    const struct tokenizer *tokenizer;
    const struct channel_format *format; /* with the tools */
};

/* 0, and the caller owns *out; or -ENOMEM. */
int constrain_calls_new(struct logits_processor **out, const struct constrain_calls_config *c);

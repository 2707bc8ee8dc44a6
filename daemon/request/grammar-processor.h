/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A logits processor that enforces a grammar: the logits of tokens that the grammar does not allow become -inf, so that
 * a sampler behind it samples exactly from the renormalized distribution. It stands before the sampler.
 *
 * Its accept refuses a token that the grammar does not allow (-EPROTO, with a message, and nothing has changed). Its
 * apply fails with -EPROTO when no token of the vocabulary continues the text.
 */
#include "daemon/sample/chain.h"
#include "daemon/text/grammar/grammar.h"
#include "daemon/text/grammar/token-trie.h"

/* Holds @g; @t must outlive the processor and its clones. 0, and the caller owns *out; or -ENOMEM. */
int grammar_processor_new(struct logits_processor **out, struct grammar *g, const struct token_trie *t);

/* The place of the answer, for questions (must it end, which bytes are forced, the shortest completion). It belongs to
 * @p, which must be a grammar processor. */
struct grammar_state *grammar_processor_state(struct logits_processor *p);

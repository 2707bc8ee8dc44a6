/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * GBNF, the grammar notation of llama.cpp: rules `name ::= …`, of which `root` is the answer; alternatives, groups,
 * literals, character classes, `.`, the repetitions ? * + {m} {m,} {m,n}, comments, and tokens: `<think>` (the text of
 * one token, special tokens included), `<[1000]>` (an id), `!<think>` (any other token with text). Left recursion is
 * allowed. A rule that is defined twice has its last definition, as in llama.cpp.
 */
#include "daemon/text/grammar/grammar-build.h"
#include "daemon/text/tokenizer/tokenizer.h"

/* Makes the expression of @s [@n]. @t, for tokens by name, may be NULL. 0; -EINVAL: sets the error message, with line
 * and column; or the error of @b. */
int gbnf_parse(struct grammar_builder *b, const char *s, size_t n, const struct tokenizer *t, expr_t *root);

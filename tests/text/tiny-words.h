/* SPDX-License-Identifier: MIT */
#pragma once
/* Vocabularies for tests whose tokens are found in the text as they are: "bert", "t5", "rwkv", "plamo2". Every function
 * asserts its own success. */
#include "tests/text/tiny-tokenizer.h"

/* The keys of a vocabulary: the @tokens, whose "_" is written as U+2581 in "bert" and "t5"; then, with @bytes, <0x00>
 * to <0xFF>. */
void tiny_words(struct tiny_tokenizer *m, const char *model, const struct tiny_token *tokens, size_t n, bool bytes);

/* The character map that replaces each @pairs[i][0] by @pairs[i][1], as bytes in @out. NULL ends the pairs. */
void tiny_charsmap(struct buf *out, const char *const (*pairs)[2]);
void tiny_put_charsmap(struct tiny_tokenizer *m, const char *const (*pairs)[2]);

/* A whole small vocabulary of each kind, with every key that the kind knows. */
extern const char *const tiny_word_kinds[]; /* then NULL */
void tiny_sample(struct tiny_tokenizer *m, const char *model);

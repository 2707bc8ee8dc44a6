/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Pre-tokenizers of BPE: the regular expressions that cut a text into pieces. Merges happen only inside a piece.
 * tokenizer.ggml.pre names the pre-tokenizer. Immutable once made.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pretokenizer;

/* 0; -EOPNOTSUPP: sets the error message, which names @name and the supported ones; -ENOMEM. */
int pretokenizer_new(struct pretokenizer **out, const char *name, size_t len);
struct pretokenizer *pretokenizer_free(struct pretokenizer *p); /* NULL ok, returns NULL */

bool pretokenizer_ignores_merges(const struct pretokenizer *p); /* if a whole piece is a token, no merges apply */
bool pretokenizer_add_bos(const struct pretokenizer *p);        /* the default where the file has no such key */
/* True if not byte-level: the vocabulary is written as SentencePiece writes it, with U+2581 for a space and tokens like
 * <0x0A>. */
bool pretokenizer_plain(const struct pretokenizer *p);

/* Receives a piece, which is never empty. A negative return stops the loop and is passed on. */
typedef int (*piece_fn)(void *ctx, uint32_t begin, uint32_t end);

/* Calls @fn for every piece of s[begin..end) in order, without gaps. The text is valid UTF-8 and begins and ends
 * between characters. Returns 0, the negative return of @fn, -ENOMEM, or -EIO with PCRE2's message. */
int pretokenizer_split(const struct pretokenizer *p, const char *s, uint32_t begin, uint32_t end, piece_fn fn,
                       void *ctx);

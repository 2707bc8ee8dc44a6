/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Pre-tokenizers of BPE: the regular expressions that cut a text into the pieces inside which merges happen,
 * as named by tokenizer.ggml.pre. Immutable after it is made.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pretokenizer;

/* -EOPNOTSUPP with a sentence that names @name and the supported ones; -ENOMEM. */
int pretokenizer_new(struct pretokenizer **out, const char *name, size_t len);
struct pretokenizer *pretokenizer_free(struct pretokenizer *p); /* NULL ok, returns NULL */

bool pretokenizer_ignores_merges(const struct pretokenizer *p); /* a whole piece that is a token is that token */
bool pretokenizer_add_bos(const struct pretokenizer *p);        /* unless the file says otherwise */
/* Not byte-level: the vocabulary is written as SentencePiece's, with U+2581 for a space and tokens like <0x0A>. */
bool pretokenizer_plain(const struct pretokenizer *p);

/* A piece, never empty; a negative return stops and is passed on. */
typedef int (*piece_fn)(void *ctx, uint32_t begin, uint32_t end);

/* Calls @fn for every piece of s[begin..end) in order, without gaps. The text is valid UTF-8 (of whole characters).
 * What @fn returned, -ENOMEM, or -EIO with PCRE2's words. */
int pretokenizer_split(const struct pretokenizer *p, const char *s, uint32_t begin, uint32_t end, piece_fn fn,
                       void *ctx);

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Text <-> token ids, from GGUF metadata: SentencePiece ("llama") and BPE ("gpt2", byte-level; "gemma4"). The ids are
 * those of llama.cpp, with three differences. Merging never makes a control, unknown or byte token. Special tokens of
 * equal length are searched in the order of their ids (llama.cpp's sort leaves the order open). A token marked unused
 * has text, so that detokenizing loses nothing. Immutable once made: any thread may use it.
 */
#include "daemon/model/gguf.h"
#include "daemon/text/text.h"
#include "libcommon/buf.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tokenizer;

#define TOKENIZER_TEXT_MAX (1u << 30) /* the longest text that is tokenized, bytes */

struct tokens {
    int32_t *ids;   /* [n] */
    uint32_t *ends; /* [n] end of each token's text, an offset into the tokenized text */
    size_t n, cap;
};

void tokens_fini(struct tokens *t);
int tokens_push(struct tokens *t, int32_t id, uint32_t end);
/* Makes *to a copy of *from. Whatever *to was is lost. 0, and the caller owns *to; or -ENOMEM, and it is empty. */
int tokens_copy(struct tokens *to, const struct tokens *from);

/*
 * On 0 the caller owns *out; nothing of @g is kept. -EOPNOTSUPP: sets the error message, which names the tokenizer (or
 * pre-tokenizer) and the supported ones. -EINVAL: the vocabulary is bad (duplicate tokens, arrays of different lengths,
 * ids out of range, …); the error message names the key or token. -ENOMEM. An empty token has no text and is never made
 * from text. A merge of a text that the vocabulary does not have is never applied.
 */
int tokenizer_new(struct tokenizer **out, const struct gguf *g);
struct tokenizer *tokenizer_free(struct tokenizer *t); /* NULL ok, returns NULL */

/*
 * Appends the ids of @text from byte @from on. Special (control) tokens are recognized only where every byte is markup,
 * user-defined tokens everywhere. @first: the text is the beginning of a sequence (SentencePiece puts its space prefix
 * there and behind special tokens). No BOS is added. The text between special tokens is tokenized as one piece,
 * whatever its provenance. A byte without a token makes no token if the file has no token for unknown bytes, as in
 * llama.cpp. 0; -ENOMEM; -EILSEQ for invalid UTF-8: sets the error message, with the byte offset; -E2BIG: over
 * TOKENIZER_TEXT_MAX, or too many overlapping special tokens. On error @out is unchanged.
 */
int tokenizer_encode(const struct tokenizer *t, const struct text *text, size_t from, bool first, struct tokens *out);

/* The bytes of one token as text, also of control tokens ("<|im_end|>"). Valid as long as @t. An id out of range has no
 * text (len 0), is no control token and ends nothing. */
const char *tokenizer_piece(const struct tokenizer *t, int32_t id, size_t *len);

size_t tokenizer_vocab(const struct tokenizer *t);
bool tokenizer_is_control(const struct tokenizer *t, int32_t id); /* control or unknown: not shown as text */
/* Has the vocabulary a control token with this text, which markup becomes? Searches all special tokens: to be asked
 * when a model is loaded. */
bool tokenizer_has_control(const struct tokenizer *t, const char *text);
bool tokenizer_is_eog(const struct tokenizer *t, int32_t id); /* ends an answer: eos, eot, and tokens like <|im_end|> */
int32_t tokenizer_bos(const struct tokenizer *t);             /* -1: none */
int32_t tokenizer_eos(const struct tokenizer *t);             /* -1: none */
bool tokenizer_add_bos(const struct tokenizer *t);            /* the file asks for a BOS in front */

/* Have both the same tokens, so that the ids of one are those of the other? Ids that only one has must be unused. 0;
 * -EINVAL: sets the error message, which names the first difference; there @a is "the model" and @b "it". */
int tokenizer_same(const struct tokenizer *a, const struct tokenizer *b);

/* The fill-in-the-middle tokens. Two orders are known: pre PREFIX suf SUFFIX mid, which most families were trained on;
 * and without mid (-1), suf SUFFIX pre PREFIX (Mistral). */
struct tokenizer_fim {
    int32_t pre, suf, mid;
};

/* NULL: the model has none. Valid as long as @t. */
const struct tokenizer_fim *tokenizer_fim(const struct tokenizer *t);

/* A streaming detokenizer, which writes whole UTF-8 characters only. Bytes that can never become valid are U+FFFD, one
 * for each maximal subpart (Unicode 15, 3.9, D93b). {0} is a new detokenizer. With at_start the first token with text
 * loses SentencePiece's prefix space. */
struct detok {
    char pending[8];
    size_t n_pending;
    bool at_start;
};

/* Appends to @out the characters that token @id completes; control tokens have none. 0, or -ENOMEM with nothing
 * changed. */
int detok_push(struct detok *d, const struct tokenizer *t, int32_t id, struct buf *out);
/* At the end of the text: an incomplete character becomes U+FFFD. 0 or -ENOMEM. */
int detok_flush(struct detok *d, struct buf *out);

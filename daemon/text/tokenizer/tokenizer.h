/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Text <-> token ids, from GGUF metadata: SentencePiece ("llama": merges; "t5": unigram), BPE ("gpt2", byte-level;
 * "gemma4"), WordPiece ("bert"), RWKV ("rwkv") and PLaMo 2 ("plamo2"). The ids are those of llama.cpp, with these
 * differences. Text never makes a control, unknown or byte token, unless byte by byte. Special tokens of equal length
 * are searched in the order of their ids (llama.cpp's sort leaves the order open). A token marked unused has text, so
 * that detokenizing loses nothing. Unigram vocabularies with byte tokens use them, and the beginning of a user-defined
 * token is normalized as any other text. Immutable once made: any thread may use it.
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
void tokens_reverse(struct tokens *t, size_t from); /* the order of those from index @from on */
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
 * there and behind special tokens). Else it continues the text in front of @from: unigram and WordPiece put a space in
 * front of it unless that ends inside a word. All tokens of a WordPiece word end where the word ends. No BOS is added.
 * The text between special tokens is tokenized as one piece, whatever its provenance. A byte without a token makes no
 * token if the file has no token for unknown bytes (llama.cpp gives -1 there). 0; -ENOMEM; -EILSEQ for invalid UTF-8:
 * sets the error message, with the byte offset; -E2BIG: over TOKENIZER_TEXT_MAX, too many overlapping special tokens,
 * or a unigram vocabulary's text is over 64 MiB when it is normalized. On error @out is unchanged.
 */
int tokenizer_encode(const struct tokenizer *t, const struct text *text, size_t from, bool first, struct tokens *out);

/* The bytes of one token as text, also of control tokens ("<|im_end|>"). Valid as long as @t. An id out of range has no
 * text (len 0), is no control token and ends nothing. */
const char *tokenizer_piece(const struct tokenizer *t, int32_t id, size_t *len);

size_t tokenizer_vocab(const struct tokenizer *t);
bool tokenizer_is_control(const struct tokenizer *t, int32_t id); /* control or unknown: not shown as text */
/* Was token @id found as a special token, user-defined ones included, in its text @s? The unknown token may also stand
 * for characters. */
bool tokenizer_was_special(const struct tokenizer *t, int32_t id, const char *s, size_t len);
/* Has the vocabulary a control token with this text, which markup becomes? Searches all special tokens: to be asked
 * when a model is loaded. */
bool tokenizer_has_control(const struct tokenizer *t, const char *text);
bool tokenizer_is_eog(const struct tokenizer *t, int32_t id); /* ends an answer: eos, eot, and tokens like <|im_end|> */
int32_t tokenizer_bos(const struct tokenizer *t);             /* -1: none */
int32_t tokenizer_eos(const struct tokenizer *t);             /* -1: none */
bool tokenizer_add_bos(const struct tokenizer *t);            /* the file asks for a BOS in front */
int32_t tokenizer_end(const struct tokenizer *t); /* behind a text that is to be embedded, never a prompt; -1: none */

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
 * loses the space that SentencePiece and WordPiece put in front. The text of WordPiece tokens, and of unigram ones with
 * a character map, is the normalized one: lower case, without accents, one space in front of each word and mark. */
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

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Text <-> token ids, from GGUF metadata: SentencePiece-style ("llama") and BPE ("gpt2", byte-level; "gemma4"). The ids
 * are those of llama.cpp, but merging never makes a control, unknown or byte token of a text, and special tokens of one
 * length are looked for in the order of their ids (llama.cpp leaves it to its sort). Unlike there, a token marked
 * unused has text: the way back is whole. Immutable after it is made: any thread may use it.
 */
#include "daemon/model/gguf.h"
#include "daemon/text/text.h"
#include "libcommon/buf.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tokenizer;

#define TOKENIZER_TEXT_MAX (1u << 30) /* longest text that is tokenized, bytes */

struct tokens {
    int32_t *ids;   /* [n] */
    uint32_t *ends; /* [n] end of each token's text, as an offset into what was tokenized */
    size_t n, cap;
};

void tokens_fini(struct tokens *t);
int tokens_push(struct tokens *t, int32_t id, uint32_t end);

/*
 * Keeps nothing of @g. -EOPNOTSUPP with a sentence that names the tokenizer (or pre-tokenizer) and the supported ones;
 * -EINVAL for bad vocabularies (duplicate tokens, arrays of different lengths, ids out of range, …) with the key or
 * token; -ENOMEM. An empty token is never made and has no text. A merge that names what is not in the vocabulary is
 * never applied.
 */
int tokenizer_new(struct tokenizer **out, const struct gguf *g);
struct tokenizer *tokenizer_free(struct tokenizer *t); /* NULL ok, returns NULL */

/*
 * Append the ids of @text from byte @from on. Special (control) tokens are recognized only where every byte is
 * markup; user-defined tokens everywhere. @first: this is the beginning of a sequence (SentencePiece puts its space
 * prefix there and after a special token). No BOS is added. Text between special tokens is tokenized as one piece,
 * whatever its provenance. Bytes the vocabulary has no token for make no token where the file names no way out (as in
 * llama.cpp). 0, -ENOMEM, -EILSEQ with a sentence for invalid UTF-8 (byte offset), -E2BIG (over TOKENIZER_TEXT_MAX,
 * or too many overlapping special tokens); on error @out is as it was.
 */
int tokenizer_encode(const struct tokenizer *t, const struct text *text, size_t from, bool first, struct tokens *out);

/* The bytes of one token as text; control tokens have theirs too ("<|im_end|>"). Valid as long as @t. Ids out of range
 * have no text (len 0), are no control tokens and end nothing. */
const char *tokenizer_piece(const struct tokenizer *t, int32_t id, size_t *len);

size_t tokenizer_vocab(const struct tokenizer *t);
bool tokenizer_is_control(const struct tokenizer *t, int32_t id); /* control or unknown: not shown as text */
bool tokenizer_is_eog(const struct tokenizer *t, int32_t id); /* ends an answer: eos, eot, and <|im_end|>-like ones */
int32_t tokenizer_bos(const struct tokenizer *t);             /* -1: none */
int32_t tokenizer_eos(const struct tokenizer *t);             /* -1: none */
bool tokenizer_add_bos(const struct tokenizer *t);            /* the file asks for a BOS in front */

/* The tokens around the texts of a gap. Two orders are known: pre PREFIX suf SUFFIX mid, which most families were
 * trained on; and, where there is no mid (-1), suf SUFFIX pre PREFIX (Mistral's). */
struct tokenizer_fim {
    int32_t pre, suf, mid;
};

/* NULL: it has none. Valid as long as @t. */
const struct tokenizer_fim *tokenizer_fim(const struct tokenizer *t);

/* Streaming detokenizer: whole UTF-8 only; bytes that can never become valid are U+FFFD, one for each maximal subpart
 * (Unicode 15, 3.9, D93b). {0} is a new one; at_start makes SentencePiece drop the prefix space of the first token with
 * text. */
struct detok {
    char pending[8];
    size_t n_pending;
    bool at_start;
};

/* Append to @out what token @id makes readable (control tokens make nothing). 0 or -ENOMEM, which changes nothing. */
int detok_push(struct detok *d, const struct tokenizer *t, int32_t id, struct buf *out);
/* The end: an incomplete character becomes U+FFFD. */
int detok_flush(struct detok *d, struct buf *out);

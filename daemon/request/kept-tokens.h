/* SPDX-License-Identifier: MIT */
#pragma once
/* The tokens of a session that a new prompt keeps, so that its KV is used again. */
#include "daemon/request/prompt-pieces.h"
#include "daemon/sequence/prompt.h"
#include "daemon/session/session.h"

/* *keep: how many of the ids of @x stand for text that @p, whose text and markup are set, begins with: the bytes are
 * equal, and so is the text of control tokens. Provenance alone may differ ("assistant" is the template's word before
 * an answer and a message's role after it). Runs of embeddings are those of @pieces, of the text of @p. The kept ids
 * end at the end of a character. 0; -ENOMEM; an error of tokenizer_encode. */
int kept_tokens(const struct prompt *p, const struct prompt_pieces *pieces, const struct tokenizer *k,
                const struct session_content *x, size_t *keep);

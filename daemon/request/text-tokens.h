/* SPDX-License-Identifier: MIT */
#pragma once
/* From a text to the tokens whose vector stands for it. Pure but for the tokenizer, so a job may call it. */
#include "daemon/request/loaded-model.h"
#include "libcommon/proto.h"

/*
 * Append to @out the tokens of @text: the vocabulary's token for the beginning where the file asks for it, those of the
 * text, in which nothing is a special token, and the token for the end of a text that is to be embedded, if the
 * vocabulary has one. With @question (else NULL): those of a pair, question, end, text, end, as the classifiers of BERT
 * were trained with; the ends of the tokens are then their types, 0 and 1. 0; -E2BIG: more tokens than the model's
 * context holds, in a message with both numbers; -EINVAL: no tokens at all; -EILSEQ; -ENOMEM. Sets the error message,
 * which does not name the text.
 */
int text_tokens(struct tokens *out, const struct loaded *m, const struct proto_text *question,
                const struct proto_text *text);

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * From a request (and the session it continues) to the tokens of its prompt. Runs in the job pool: reads the model's
 * immutable parts and a session that is busy for this request, changes neither.
 */
#include "daemon/request/loaded-model.h"
#include "daemon/sequence/prompt.h"
#include "daemon/session/session.h"

/*
 * Fill @p (zero before) from @g. @x may be NULL. Messages: the session's and the request's are rendered together; ids
 * are kept up to the last token boundary (that is also a character's) to which the rendered text and its provenance
 * equal the session's; the rest is tokenized. Raw: the text goes behind the session's. A system message equal to the
 * session's first one is not repeated. 0; -EINVAL for what the request may not ask (empty prompt, raw and messages
 * mixed, the template's own refusal), -EILSEQ for text that is not UTF-8, -E2BIG for what the context cannot hold,
 * -EOPNOTSUPP without a usable template; -ENOMEM. All with a sentence.
 */
int prepare_prompt(struct prompt *p, const struct loaded *m, const struct proto_generate *g, const struct session *x);

/* The context policy of @g in @x (may be NULL): what the request says, else what the session has; refuse. */
enum proto_context prepare_context(const struct proto_generate *g, const struct session *x);

/* Tokens that a sequence may have at most under @policy, answer included. */
uint64_t prepare_limit(uint32_t ctx, enum proto_context policy);

/* The first of the request's messages that are new to @x: 1 when its first only repeats the session's system message.
 */
size_t prepare_first_message(const struct proto_generate *g, const struct session *x);

/* The request's logit biases, texts made ids: @out [n] is the caller's to free, NULL for none. 0; -EINVAL with a
 * sentence for an id that is none, or a text that is not one token; -ENOMEM. */
int prepare_biases(struct sample_bias **out, size_t *n, const struct loaded *m, const struct proto_generate *g);

/* For a tokenize request: @out [n] is the caller's to free. Errors as above. */
int prepare_tokens(struct tokens *out, const struct loaded *m, const struct proto_text *text, bool special);

/* SPDX-License-Identifier: MIT */
#pragma once
/* From a request (and the session it continues) to the tokens of its prompt. Runs in the job pool: reads the model's
 * immutable parts. */
#include "daemon/request/loaded-model.h"
#include "daemon/request/messages.h"
#include "daemon/sequence/prompt.h"
#include "daemon/session/session.h"

struct request;

/*
 * Fill @p (zero before) from @g. @x, which is not changed, may be NULL. Messages: the session's and the request's are
 * rendered together; ids are kept up to the last token boundary (that is also a character's) to which the rendered text
 * and its provenance equal the session's; the rest is tokenized. Raw: the text goes behind the session's. A system
 * message equal to the session's first one is not repeated. 0; -EINVAL for what the request may not ask (empty prompt,
 * raw and messages mixed, the template's own refusal), -EILSEQ for text that is not UTF-8, -E2BIG for what the context
 * cannot hold, -EOPNOTSUPP without a usable template; -ENOMEM. All but -ENOMEM set the error message.
 */
int prepare_prompt(struct prompt *p, const struct loaded *m, const struct proto_generate *g, const struct session *x,
                   const struct prompt_extras *e);

/* The job of a request with a prompt: load its session, and fill in the prompt and the biases of its first sequence. 0,
 * or -errno and an error message. */
int prepare_request(struct request *r);

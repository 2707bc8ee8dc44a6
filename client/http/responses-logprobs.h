/* SPDX-License-Identifier: MIT */
#pragma once
/* The probabilities of an answer's tokens in /v1/responses. Objects of whole items have those of chat completions
 * (openai-logprobs.h); events have the same without bytes. */
#include "client/http/completion.h"

/* Collect the tokens of @e, an event of the answer of a stream. 0 or -ENOMEM. */
int response_logprobs_add(struct completion *c, const struct proto_event *e);

/* The tokens since the last call, or all of the open item, without bytes; a new list. */
json_t *response_logprobs_new(struct completion *c);
json_t *response_logprobs_all(const struct completion *c);

/* Put the tokens of the open item of a stream into @part, which has a text. */
void response_logprobs_put(const struct completion *c, json_t *part);

/* The next item has its own tokens. */
void response_logprobs_clear(struct completion *c);

/* Put those of a whole answer into the message of @output. */
void response_logprobs_put_whole(const struct completion *c, json_t *output);

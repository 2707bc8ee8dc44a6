/* SPDX-License-Identifier: MIT */
#pragma once
/* The probabilities of an answer's tokens in the forms of OpenAI's API. Both are made from one list: an object of chat
 * completions for each token (token, logprob, bytes, top_logprobs). Each function json_t *() returns a new object, or
 * NULL: no memory. */
#include "client/http/completion.h"
#include "client/http/fields.h"
#include <jansson.h>

/* Values of struct field.read: logprobs and top_logprobs of chat completions, and logprobs of completions. */
int logprobs_read_wanted(struct completion *c, const struct field *f, const json_t *v);
int logprobs_read_top(struct completion *c, const struct field *f, const json_t *v);
int logprobs_read_text(struct completion *c, const struct field *f, const json_t *v);

/* top_logprobs needs logprobs, which the client has with @wanted. 0; negative with the fault. */
int logprobs_check(struct completion *c, const char *wanted);

/* The token of @e as a list with one object, or with none. */
json_t *logprobs_of_event(const struct proto_event *e);

/* The value of "logprobs" from the list @tokens, which is released; null if the client wants none. */
json_t *logprobs_chat(const struct completion *c, json_t *tokens);

/* The same for completions. *offset: characters of the text before these tokens, increased by those of the tokens. */
json_t *logprobs_text(const struct completion *c, json_t *tokens, size_t *offset);

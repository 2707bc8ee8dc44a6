/* SPDX-License-Identifier: MIT */
#pragma once
/* The messages of a chat, from the JSON of either API. */
#include "client/http/fields.h"

/* Append a message with @role and the text of @content: a string, or a list of parts, of which only those with text are
 * supported. @place names it in errors. 0; negative with the fault. */
int chat_add(struct completion *c, const char *role, const json_t *content, const char *place);

/* Values of struct field.read: the list "messages". */
int chat_read_openai(struct completion *c, const struct field *f, const json_t *v);
int chat_read_anthropic(struct completion *c, const struct field *f, const json_t *v);

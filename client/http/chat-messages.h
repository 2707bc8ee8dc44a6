/* SPDX-License-Identifier: MIT */
#pragma once
/* The messages of a chat, from the JSON of either API. */
#include "client/http/fields.h"

/* Values of struct field.read: the list "messages". */
int chat_read_openai(struct completion *c, const struct field *f, const json_t *v);
int chat_read_anthropic(struct completion *c, const struct field *f, const json_t *v);

/* In the functions below, @place names the message in errors. Those that return int return 0, or negative with the
 * fault. */

/* Append a message with @role, without text. The request owns it; the pointer is valid until the next call. NULL: no
 * memory, with the fault. */
struct proto_message *chat_new(struct completion *c, const char *role);

/* Append a message with @role and @content: a string, or a list of parts, each a text, an image or a sound. */
int chat_add(struct completion *c, const char *role, const json_t *content, const char *place);

/* Append the message of a tool's result for the call @id with the text of @content. */
int chat_add_result(struct completion *c, const json_t *id, const json_t *content, const char *place);

/* Append a call to @m. @arguments (owned by the caller; NULL: no memory) is the JSON text of an object. */
int chat_add_call(struct completion *c, struct proto_message *m, const json_t *id, const json_t *name,
                  const char *arguments, const char *place);

/* Append the text of @content to @text. */
int chat_text(struct completion *c, struct buf *text, const json_t *content, const char *place);

/* Refuse a member of @object that is not in @known (ended by NULL): it would change the meaning. */
int chat_check_members(struct completion *c, const json_t *object, const char *const *known, const char *place);

/* Call @read for each message of the list @v, then name the tools of results: some templates need them, and neither API
 * has them there. */
int chat_read_list(struct completion *c, const struct field *f, const json_t *v,
                   int (*read)(struct completion *c, const json_t *m, const char *place));

/* SPDX-License-Identifier: MIT */
#pragma once
/* Parts of the requests and objects of OpenAI's API. Each function json_t *() returns a new object, or NULL: no memory.
 */
#include "client/http/completion.h"
#include "client/http/fields.h"
#include <jansson.h>

extern const struct field openai_fields[]; /* of chat and text completions */

/* A new completion of @x with the fields of its body, by @own and the common tables. 0 with *out; negative with the
 * fault; -ENOMEM. */
int openai_read(struct completion **out, struct exchange *x, const struct completion_format *format,
                const struct field *own);

/* "stop", "length" or "tool_calls". */
const char *openai_reason(enum proto_reason r);

json_t *openai_usage(const struct completion *c);

/* A response or a chunk of the type @object with @choices, which is released. @usage may be NULL; it is released. */
json_t *openai_object(const struct completion *c, const char *object, json_t *choices, json_t *usage);

/* Append a chunk with @choice (released; NULL: no choice) and @usage (released; NULL: none, or null if the client wants
 * the usage). 0 or -ENOMEM; sets the error message. */
int openai_put_chunk(const struct completion *c, struct buf *out, const char *object, json_t *choice, json_t *usage);

/* The last chunk with the usage, if the client wants it, and the mark of the end. As openai_put_chunk. */
int openai_put_close(const struct completion *c, struct buf *out, const char *object);

/* The text in @b. */
json_t *openai_text(const struct buf *b);

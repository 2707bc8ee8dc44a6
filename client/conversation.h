/* SPDX-License-Identifier: MIT */
#pragma once
/* Grows the messages of a request by what was said. */
#include "client/answer-parts.h"

/* Append a message with a copy of @text; *@out (NULL ok) points to it until the next call. 0 or -ENOMEM. */
int conversation_add(struct proto_generate *g, const char *role, const char *text, size_t len,
                     struct proto_message **out);

/* Append the answer @said as a message of the assistant; takes its texts and copies its calls. Arguments that are not a
 * JSON object become an empty one. 0 or -ENOMEM. */
int conversation_answer(struct proto_generate *g, struct answer_parts *said);

/* Append the result of @call; takes the memory of @result. 0 or -ENOMEM. */
int conversation_result(struct proto_generate *g, const struct tool_call *call, struct buf *result);

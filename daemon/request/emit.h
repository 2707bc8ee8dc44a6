/* SPDX-License-Identifier: MIT */
#pragma once
/* From the output of tokens to the events of a request. */
#include "daemon/request/request.h"

/* Queue the events of @out, whose texts it takes, for answer @s. The first event has the tokens of @first, a text event
 * whose lists it takes (NULL: no tokens). */
void emit_output(struct request *r, const struct seq *s, struct output_step *out, struct proto_event *first);

/* Queue a warning about answer @s (NULL: about the request). Without memory there is none. */
void emit_warning(struct request *r, const struct seq *s, const char *text, size_t len);

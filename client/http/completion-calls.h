/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The tool calls of an answer. A stream cannot take back what was sent, and the daemon may withdraw a malformed call.
 * So a call begins in the stream with the first piece of its arguments: until then it can be withdrawn.
 */
#include "client/http/completion.h"

/* Add the piece of @e, a tool_call event of an answer that exists; takes its id and name. A stream gets it at once. 0;
 * negative with the error message: -EBADMSG, a call that has begun in the stream is withdrawn. */
int completion_call(struct completion *c, struct proto_event *e);

/* No more pieces of the last call of the answer @index arrive: a call without arguments gets into the stream. 0;
 * negative with the error message. */
int completion_end_call(struct completion *c, uint32_t index);

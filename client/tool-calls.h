/* SPDX-License-Identifier: MIT */
#pragma once
/* The calls of an answer, joined from the events that carry their pieces. */
#include "libcommon/buf.h"
#include "libcommon/proto.h"

struct tool_call {
    struct proto_text id, name;
    struct buf arguments; /* JSON text; a part of it, if the answer was cut */
};

struct tool_calls {
    struct tool_call *calls; /* [n], owned */
    size_t n;
    size_t next; /* number of the next call; the numbers count withdrawn calls too */
    bool open;   /* more pieces of the last one can arrive */
};

/* Add the piece of @e, a tool_call event; takes its id and name. A withdrawn call is removed. 0; -EPROTO: not the next
 * piece; sets the error message; -ENOMEM. */
int tool_calls_add(struct tool_calls *c, struct proto_event *e);

/* Append arguments, the JSON text @s, on one line; no text is an empty object. 0; -EBADMSG: not a JSON object; sets the
 * error message; -ENOMEM. */
int tool_call_arguments(struct buf *out, const char *s, size_t len);

/* Append the line of a complete call, a JSON object with "id", "name" and "arguments". As tool_call_arguments; on
 * failure
 * @out is unchanged. */
int tool_call_line(struct buf *out, const struct tool_call *c);

void tool_calls_fini(struct tool_calls *c);

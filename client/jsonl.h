/* SPDX-License-Identifier: MIT */
#pragma once
/* Events as JSON lines: the output of --jsonl. hob.1 describes the lines. */
#include "client/answer-parts.h"

/*
 * Append the line of @e, with its newline; nothing if the event has no line. @said is the answer so far, for
 * "text" in done and for the id and the name of a call. A text event has "ids" and "logprobs" if it carries them or if
 * @logprobs is set. @indexed: add "index". 0 or -ENOMEM, after which @out may have a part of the line.
 */
int jsonl_event(struct buf *out, const struct proto_event *e, const struct answer_parts *said, bool logprobs,
                bool indexed);

/* Append the line of an error: @code a positive errno. 0 or -ENOMEM. */
int jsonl_error(struct buf *out, int code, const char *message, size_t len);

/* Append the line of a call's result. 0 or -ENOMEM. */
int jsonl_result(struct buf *out, const struct tool_call *call, const struct buf *result);

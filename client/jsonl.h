/* SPDX-License-Identifier: MIT */
#pragma once
/* Events as JSON lines: the output of --jsonl. hob.1 describes the lines. */
#include "libcommon/buf.h"
#include "libcommon/proto.h"

/*
 * Append the line of @e, with its newline; nothing for an event that has none. @whole is the answer's text so far, for
 * "text" in done. A text event has "ids" and "logprobs" when it carries them or @logprobs asks for them.
 * 0 or -ENOMEM, after which a part of the line may have been added.
 */
int jsonl_event(struct buf *out, const struct proto_event *e, const struct buf *whole, bool logprobs, bool indexed);

/* Append the line of an error: @code a positive errno. 0 or -ENOMEM. */
int jsonl_error(struct buf *out, int code, const char *message, size_t len);

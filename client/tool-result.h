/* SPDX-License-Identifier: MIT */
#pragma once
/* What the model is told about a call. */
#include "client/child.h"

/* Append the result of a tool that ran within @l: its standard output; in front, if it failed, a line with the reason,
 * and its standard error. Bytes that are not text become U+FFFD. 0 or -ENOMEM. */
int tool_result(struct buf *out, const struct child_result *c, const struct child_limits *l);

/* The reason why the tool failed, for one line; "": it did not. @out: at least 64 bytes. */
const char *tool_result_failure(char *out, const struct child_result *c, const struct child_limits *l);

/* SPDX-License-Identifier: MIT */
#pragma once
/* One call of a tool, from the question to its result. */
#include "client/tool-loop.h"

/* Run the call, if the user lets it, and append its result, a text for the model, to @out. 0; -EINTR; -ENOMEM; or an
 * error of the terminal; sets the error message. */
int tool_call_run(struct tool_loop *l, const struct tool_call *call, struct buf *out);

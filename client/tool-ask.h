/* SPDX-License-Identifier: MIT */
#pragma once
/* Asks the user at the terminal whether a call may run. */
#include "client/tool-set.h"
#include "libcommon/buf.h"

/* Open the terminal of the session, if standard error is a terminal too. Returns the descriptor, which the caller
 * closes; -ENOTTY: none. */
int tool_ask_open(void);

enum { TOOL_REFUSED = 1 }; /* a positive outcome */

/*
 * Show the call of @t with @arguments (JSON on one line) on the terminal @tty and ask. The user may let @t run without
 * further questions (t->always) or edit the arguments, which sets *edited. 0: run it; TOOL_REFUSED; -EINTR; else
 * -errno; sets the error message.
 */
int tool_ask(int tty, struct tool *t, struct buf *arguments, bool *edited);

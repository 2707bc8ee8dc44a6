/* SPDX-License-Identifier: MIT */
#pragma once
/* Asks at the terminal what to do with a command. */
#include "libcommon/buf.h"

enum do_choice { DO_RUN, DO_NOT, DO_COPY };

/*
 * Show @command and @does (what it does; NULL: unknown) on the terminal @tty, and wait for a key. Keys that were
 * pressed before the question, and several at once, such as pasted text, are no answer. The user may edit the command,
 * any number of times. A command of which a terminal does not show every character (visible.h) is shown with its hidden
 * characters escaped, and can only be edited or refused. Returns a choice; -EINTR; else -errno; sets the error message.
 */
int do_ask(int tty, struct buf *command, const char *does);

/* Put @text into the clipboard of the terminal (OSC 52). 0 or -errno; sets the error message. */
int do_copy(int tty, const struct buf *text);

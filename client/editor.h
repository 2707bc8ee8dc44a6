/* SPDX-License-Identifier: MIT */
#pragma once
/* The user's editor: $VISUAL, else $EDITOR, else vi. */
#include "libcommon/buf.h"

/* Edit the file @path on the terminal @tty, and wait until the editor ends. 0; -ECHILD: the editor failed; else -errno;
 * sets the error message. */
int editor_file(int tty, const char *path);

/* Edit @text on the terminal @tty, in a temporary file whose name ends in @suffix. 0; else -errno, with @text
 * unchanged; sets the error message. */
int editor_text(int tty, struct buf *text, const char *suffix);

/* SPDX-License-Identifier: MIT */
#pragma once
/* Where the lines of a chat come from: an editor with a history on a terminal, else standard input as it is. */
#include "libcommon/buf.h"
#include <stdbool.h>

struct chat_line;

/* The history is kept in @history (NULL: nowhere). Owned by the caller: chat_line_free. 0 or -ENOMEM. */
int chat_line_new(struct chat_line **out, const char *history);
struct chat_line *chat_line_free(struct chat_line *l);

/* Whether somebody types. */
bool chat_line_edits(const struct chat_line *l);

/* The next line into @out, which is emptied first: without its newline; lines that end in a backslash are one with the
 * next, and so is what is pasted. 0; 1: the end; -EINTR: it was given up with Ctrl-C; -ENOMEM. */
int chat_line_read(struct chat_line *l, struct buf *out);

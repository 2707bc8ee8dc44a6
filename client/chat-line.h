/* SPDX-License-Identifier: MIT */
#pragma once
/* Input lines of a chat: from an editor with a history on a terminal, else from standard input. */
#include "libcommon/buf.h"
#include <stdbool.h>

struct chat_line;

/* @history: path of the history file; NULL: none. The caller owns *out: chat_line_free. 0 or -ENOMEM. */
int chat_line_new(struct chat_line **out, const char *history);
struct chat_line *chat_line_free(struct chat_line *l);

/* Whether the lines come from the line editor. */
bool chat_line_edits(const struct chat_line *l);

/* Read the next line into @out, which is emptied first, without its newline. A line that ends in a backslash continues
 * on the next; pasted text is one line. 0; 1: end of input; -EINTR: discarded with Ctrl-C; -ENOMEM. */
int chat_line_read(struct chat_line *l, struct buf *out);

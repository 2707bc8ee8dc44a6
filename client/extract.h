/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The first fenced block of code of a Markdown text (CommonMark 0.31, section 4.5), as it streams: line by line,
 * without the fences, and without as much indentation as the first fence has. How the text is cut into pieces does not
 * matter.
 */
#include "libcommon/buf.h"
#include <stdbool.h>

enum extract_where { EXTRACT_BEFORE, EXTRACT_INSIDE, EXTRACT_BEHIND };

/* {0} is the beginning of a text. */
struct extract {
    enum extract_where where;
    size_t indent, fence; /* of the first fence */
    char mark;
    struct buf line; /* that has not ended */
};

void extract_fini(struct extract *x);

/* Append to @out what of @text is code. 0 or -ENOMEM. */
int extract_text(struct extract *x, struct buf *out, const char *text, size_t len);

/* The text has ended, or is cut short: so has its last line. 0 or -ENOMEM. */
int extract_end(struct extract *x, struct buf *out);

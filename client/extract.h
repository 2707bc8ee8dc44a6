/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Extracts the first fenced code block of a streamed Markdown text (CommonMark 0.31, section 4.5), line by line,
 * without the fences and without the indentation of the first fence. The result does not depend on how the text is
 * split into pieces.
 */
#include "libcommon/buf.h"
#include <stdbool.h>

enum extract_where { EXTRACT_BEFORE, EXTRACT_INSIDE, EXTRACT_BEHIND };

/* {0} is the initial state. */
struct extract {
    enum extract_where where;
    size_t indent, fence; /* of the first fence */
    char mark;
    struct buf line; /* incomplete last line */
};

void extract_fini(struct extract *x);

/* Append the code in @text to @out. 0 or -ENOMEM. */
int extract_text(struct extract *x, struct buf *out, const char *text, size_t len);

/* End of the text: process an unfinished last line. 0 or -ENOMEM. */
int extract_end(struct extract *x, struct buf *out);

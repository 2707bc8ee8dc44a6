/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Styles streamed Markdown for a terminal: adds escape sequences around headings, emphasis and code. Every byte of the
 * text stays in its order, so that a copy from the screen equals the model's text. The result does not depend on how
 * the text is split into pieces. Emphasis and `code` end with their line at the latest, so that a stray mark does not
 * style the rest.
 */
#include "libcommon/buf.h"
#include <stdbool.h>

/* {0} is the initial state. */
struct render {
    char mark; /* kind of the pending marks, whose meaning depends on the next character */
    size_t marks;
    char before;           /* the byte before them; 0: start of the line */
    unsigned style, shown; /* bits: the wanted style, and the current style of the terminal */
    size_t indent;         /* spaces at the start of this line */
    size_t fence,
        ticks; /* number of marks that opened the block of code, or the `code` on this line; 0: none is open */
    char fence_mark;
    bool in_line; /* the line has a character other than a space */
    bool escaped; /* the previous character was a backslash */
};

/* Whether @fd can show styles: a terminal, TERM is not dumb, NO_COLOR is not set. */
bool render_wanted(int fd);

/* Append the styled @text. 0 or -ENOMEM, after which the state is invalid. */
int render_text(struct render *r, struct buf *out, const char *text, size_t len);

/* End of the text: append pending marks and reset the terminal's style. 0 or -ENOMEM. */
int render_end(struct render *r, struct buf *out);

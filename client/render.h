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
    char mark; /* of the marks that wait for what comes after them */
    size_t marks;
    char before;           /* the byte in front of them; 0: the line begins */
    unsigned style, shown; /* bits: as it should be, and as the terminal was told */
    size_t indent;         /* spaces that this line began with */
    size_t fence, ticks;   /* marks that the block of code, the `code` on this line began with; 0: in none */
    char fence_mark;
    bool in_line; /* something other than spaces has come on this line */
    bool escaped; /* a backslash has just come */
};

/* Whether @fd can show styles: a terminal, TERM is not dumb, NO_COLOR is not set. */
bool render_wanted(int fd);

/* Append the styled @text. 0 or -ENOMEM, after which the state is invalid. */
int render_text(struct render *r, struct buf *out, const char *text, size_t len);

/* End of the text: append pending marks and reset the terminal's style. 0 or -ENOMEM. */
int render_end(struct render *r, struct buf *out);

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Markdown on a terminal, as it streams: escape sequences are put around headings, emphasis and code; every byte of the
 * text stays, in its order, so that what is copied from the screen is what the model wrote. How the text is cut into
 * pieces does not change what comes out. Emphasis and `code` end with their line at the latest, so that a stray mark
 * does not colour the rest.
 */
#include "libcommon/buf.h"
#include <stdbool.h>

/* {0} is the beginning of a text. */
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

/* Whether @fd can show it: a terminal, which is not TERM=dumb, and no NO_COLOR. */
bool render_wanted(int fd);

/* Append @text as it is to be written. 0 or -ENOMEM, after which nothing more can be made of it. */
int render_text(struct render *r, struct buf *out, const char *text, size_t len);

/* The text has ended, or is cut short: append what waits, and make the terminal as it was. 0 or -ENOMEM. */
int render_end(struct render *r, struct buf *out);

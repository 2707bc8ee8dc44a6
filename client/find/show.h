/* SPDX-License-Identifier: MIT */
#pragma once
/* Prints what was found. */
#include "client/find/results.h"

/* @path of the folder @root as seen from the directory @from (both absolute, resolved): "src/a.c", "../b.c". The caller
 * frees the result; NULL: no memory. */
char *show_path(const char *root, const char *path, const char *from);

/* Append a file's name for a terminal: control characters, newlines too, become pictures. 0 or -ENOMEM. */
int show_name(struct buf *out, const char *name);

/* How lines are written. */
struct show_style {
    bool escape; /* to a terminal: control characters become pictures */
    bool color;
};

enum { SHOW_LINE_BYTES = 300 }; /* of a line's text; the rest is cut */

/* Append "PATH:LINE:TEXT\n". 0 or -ENOMEM. */
int show_line(struct buf *out, const char *path, const struct result *r, const struct words *w,
              struct show_style style);

/* Append {"file", "line", "first", "last", "score", "text"} and a newline. 0 or -ENOMEM. */
int show_json(struct buf *out, const char *path, const struct result *r);

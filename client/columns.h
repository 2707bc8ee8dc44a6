/* SPDX-License-Identifier: MIT */
#pragma once
/* A table of short texts in aligned columns. */
#include "libcommon/buf.h"

struct table {
    struct buf cells;     /* each with its NUL, row by row, the heading first */
    unsigned columns;     /* at most TABLE_COLUMNS_MAX */
    unsigned right;       /* a bit for each column whose texts end at the same place, as numbers do */
    unsigned width;       /* of the lines, by leaving out what can be spared and making the first column's texts
                             shorter; 0: as wide as they are */
    unsigned spare;       /* a bit for each column that can be left out, the last of them first; not the first one */
    const char *in_front; /* of every line; NULL: nothing */
};

enum { TABLE_COLUMNS_MAX = 16 };

/* Add the next cell; control characters become pictures. 0 or -ENOMEM. */
int table_put(struct table *t, const char *text);

/* Append the lines without trailing spaces. An incomplete last row is not printed. 0 or -ENOMEM. */
int table_print(struct buf *out, const struct table *t);

void table_fini(struct table *t);

/* Append @text on one line; control characters become pictures. 0 or -ENOMEM. */
int table_plain(struct buf *out, const char *text);

/* Width of the terminal @fd in columns; 0: not a terminal. */
unsigned table_terminal(int fd);

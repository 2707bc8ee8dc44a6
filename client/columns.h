/* SPDX-License-Identifier: MIT */
#pragma once
/* A table of short texts in aligned columns. */
#include "libcommon/buf.h"

struct table {
    struct buf cells; /* each with its NUL, row by row, the heading first */
    unsigned columns; /* at most TABLE_COLUMNS_MAX */
    unsigned right;   /* a bit for each right-aligned column */
    /* Maximum width of the lines; 0: unlimited. If they are too wide, optional columns are dropped, the last one first,
     * then the first column is truncated. */
    unsigned width;
    unsigned optional;  /* a bit for each optional column; never the first column */
    const char *prefix; /* printed at the start of every line; NULL: nothing */
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

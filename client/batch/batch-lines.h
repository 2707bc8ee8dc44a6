/* SPDX-License-Identifier: MIT */
#pragma once
/* Reads a descriptor line by line, as fast as the caller wants lines and no faster. */
#include "libcommon/buf.h"
#include <stdbool.h>
#include <stdint.h>

#define BATCH_LINE_MAX (64u << 20) /* bytes; of a longer line only the beginning is kept */

struct batch_lines {
    int fd;           /* not owned */
    const char *name; /* of the file, for messages */
    bool null;        /* a NUL ends a line, not a newline */
    /* of the last line */
    struct buf line; /* without its end */
    uint64_t number; /* from 1 */
    uint64_t bytes;  /* with its end */
    bool too_long;   /* it has more than BATCH_LINE_MAX bytes */
    bool torn;       /* the input ends without an end of this line */
    /* private */
    struct buf chunk;
    size_t at;      /* in @chunk */
    bool over, eof; /* the line was returned; the input has ended */
};

enum batch_lines_result {
    BATCH_LINE_END,   /* 0: no more lines */
    BATCH_LINE_WHOLE, /* the members are of the next line */
    BATCH_LINE_WAIT,  /* the next line has not arrived: poll the descriptor */
};

/* Read on. enum batch_lines_result; -EINTR; else -errno; sets the error message, which names the file. */
int batch_lines_next(struct batch_lines *in);

void batch_lines_fini(struct batch_lines *in);

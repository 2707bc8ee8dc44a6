/* SPDX-License-Identifier: MIT */
#pragma once
/* The output of hob batch: whole lines, each written at once. A line that does not fit is taken back. */
#include "client/batch/batch-done.h"
#include "libcommon/buf.h"
#include <stdbool.h>

struct batch_file {
    int fd;           /* owned unless it is standard output; -1: none */
    const char *name; /* NULL: standard output */
    uint64_t end;     /* of the complete lines, bytes; not of standard output */
};

/* Open the file @name (NULL: standard output), which must not be the file @input. With @resume, read into @done what it
 * has, and cut off an incomplete last line; without, it must be empty or new. The file is locked: no other hob batch
 * may write it. 0; -EINVAL: the caller may not write it; else -errno; sets the error message. Call batch_file_close in
 * any case. */
int batch_file_open(struct batch_file *f, const char *name, int input, bool resume, struct batch_done *done);

/* Write one line. 0; -EINTR; -EPIPE; else -errno; sets the error message. After an error the file has its complete
 * lines only. */
int batch_file_write(struct batch_file *f, const struct buf *line);

/* 0, or -errno: what was written may be lost; sets the error message. */
int batch_file_close(struct batch_file *f);

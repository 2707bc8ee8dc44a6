/* SPDX-License-Identifier: MIT */
#pragma once
/* Reads the prompt: standard input, then files, then words, as one text. */
#include "client/options.h"
#include "libcommon/buf.h"

/* Maximum bytes of all input: a frame less the rest of a request. */
#define INPUT_MAX ((64u << 20) - (256u << 10))

/*
 * Append the prompt to @out. Trailing newlines of each piece are removed, and a blank line separates pieces; with raw
 * the pieces are joined unchanged. @stdin_fd < 0: no standard input. 0; 1: empty; -EILSEQ, -EMSGSIZE, -EINTR or another
 * -errno; sets the error message, which names the input.
 */
int input_read(const struct options *o, int stdin_fd, struct buf *out);

/* Append the file @path, or @fd if @path is NULL, unchanged; the text must be UTF-8. As input_read, but 0 for an empty
 * text. */
int input_whole(struct buf *out, const char *path, int fd);

/* Check and trim the piece at the end of @out, from @start on. @name: its name in the error message. As input_read; 1:
 * the piece is empty. */
int input_finish(const struct options *o, struct buf *out, size_t start, const char *name);

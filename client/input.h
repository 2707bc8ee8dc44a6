/* SPDX-License-Identifier: MIT */
#pragma once
/* What is asked: standard input, then files, then words, as one text. */
#include "client/options.h"
#include "libcommon/buf.h"

/* Bytes of all input together: a frame less what else a request carries. */
#define INPUT_MAX ((64u << 20) - (256u << 10))

/*
 * Append to @out. Pieces have their trailing newlines taken off and a blank line put between them; with raw they stay
 * as they are and nothing is put between. @stdin_fd < 0: no standard input.
 * 0; 1: there is nothing; -EILSEQ, -EMSGSIZE, -EINTR or another -errno with a sentence that names the input.
 */
int input_read(const struct options *o, int stdin_fd, struct buf *out);

/* Append the whole of the file @path, or of @fd when it is NULL: as it is, checked to be UTF-8. As input_read; an empty
 * text is 0 too. */
int input_whole(struct buf *out, const char *path, int fd);

/* Add one piece that already stands at the end of @out, from @start on: checked, trimmed, UTF-8. @name is for the
 * sentence. As input_read; 1: the piece was empty. */
int input_finish(const struct options *o, struct buf *out, size_t start, const char *name);

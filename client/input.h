/* SPDX-License-Identifier: MIT */
#pragma once
/* Reads the prompt: standard input, then files, images and sounds, then words. */
#include "client/options.h"
#include "libcommon/buf.h"

/* Maximum bytes of all input: a frame less the rest of a request. */
#define INPUT_MAX ((64u << 20) - (256u << 10))

/* A prompt. */
struct input {
    struct buf text;
    struct proto_media *media; /* [n_media], owned: stand in the text */
    size_t n_media;
};

/*
 * Append the prompt to @in. Trailing newlines of each text are removed, and a blank line separates texts; with raw the
 * texts are joined unchanged. Images and sounds stand before the text that follows them. @stdin_fd < 0: no standard
 * input. 0; 1: empty; -EILSEQ, -EMSGSIZE, -EINTR or another -errno; sets the error message, which names the input.
 */
int input_read(const struct options *o, int stdin_fd, struct input *in);

/* Append the file @path ("-": standard input) behind the text of @in. As input_read; -EINVAL: the file is empty, or
 * there are too many. */
int input_media(struct input *in, enum proto_media_kind kind, const char *path);

/* Append @text behind the others as input_read does. @name: its name in the error message. As input_read; 1: @text is
 * empty, and @in unchanged. */
int input_append(const struct options *o, struct input *in, const struct buf *text, const char *name);

void input_fini(struct input *in); /* leaves it zero */

/* Append the file @path, or @fd if @path is NULL, unchanged; the text must be UTF-8. As input_read, but 0 for an empty
 * text. */
int input_whole(struct buf *out, const char *path, int fd);

/* Check and trim the piece at the end of @out, from @start on. @name: its name in the error message. As input_read; 1:
 * the piece is empty. */
int input_finish(const struct options *o, struct buf *out, size_t start, const char *name);

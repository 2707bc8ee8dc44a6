/* SPDX-License-Identifier: MIT */
#pragma once
/* Where the answer goes: unbuffered writes to a descriptor, or (hold) into memory until output_release. */
#include "libcommon/buf.h"
#include <stdbool.h>

struct output {
    int fd;
    bool tty;   /* fd is a terminal */
    bool watch; /* fd is a pipe or socket, whose reader may go away while we wait for words */
    bool hold;
    struct buf held;
};

void output_init(struct output *o, int fd, bool hold);
void output_fini(struct output *o);

/* 0; -EPIPE: nobody reads any more; -EINTR; else -errno with a sentence. Blocks while the reader is slow. */
int output_write(struct output *o, const char *p, size_t n);

/* All of @text[@n] to standard output, at once. As output_write. */
int output_print(const char *text, size_t n);

/* Does @fd show what escape sequences ask for: a terminal, and not TERM=dumb? */
bool output_draws(int fd);

/* Write what is held. As output_write. */
int output_release(struct output *o);

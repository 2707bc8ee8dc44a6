/* SPDX-License-Identifier: MIT */
#pragma once
/* Output of the answer: unbuffered writes to a descriptor (-1: nowhere), or (hold) into memory until output_release. */
#include "libcommon/buf.h"
#include <stdbool.h>

struct output {
    int fd;
    bool tty;   /* fd is a terminal */
    bool watch; /* fd is a pipe or socket whose reader may close it while hob waits for the answer */
    bool hold;
    struct buf held;
};

void output_init(struct output *o, int fd, bool hold);
void output_fini(struct output *o);

/* 0; -EPIPE: the reader closed; -EINTR; else -errno; sets the error message. Blocks while the reader is slow. */
int output_write(struct output *o, const char *p, size_t n);

/* Write @text[@n] to standard output. As output_write. */
int output_print(const char *text, size_t n);

/* Whether nobody reads @fd any more: a pipe or a socket whose other end is closed. */
bool output_closed(int fd);

/* Whether @fd interprets escape sequences: a terminal, TERM is not dumb. */
bool output_draws(int fd);

/* Write the held text. As output_write. */
int output_release(struct output *o);

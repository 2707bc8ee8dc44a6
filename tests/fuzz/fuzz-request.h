/* SPDX-License-Identifier: MIT */
#pragma once
/* Requests that a daemon understands, made from bytes. */
#include "libcommon/buf.h"
#include "tests/fuzz/fuzz.h"

/* Append a request of any type but hello, whose parts @in chooses: its id is small, so that it may be one of a live
 * request; sessions and users are few. */
void fuzz_request(struct buf *out, struct fuzz_input *in);

/* Send a hello to the socket @fd: @how & 1 of a named user, & 2 of another version. */
struct fuzz_hello {
    int fd;
    unsigned how;
};
void fuzz_hello(const struct fuzz_hello *h, struct fuzz_input *in);

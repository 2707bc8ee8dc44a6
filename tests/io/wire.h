/* SPDX-License-Identifier: MIT */
#pragma once
/* A peer's end of a socket, for tests: whole messages out, bytes in pieces, events back. */
#include "libcommon/frame.h"
#include "libcommon/proto.h"
#include <stdbool.h>

struct wire {
    int fd;
    struct frame_decoder in;
    bool eof; /* the other side has closed */
};

void wire_init(struct wire *w, int fd);
void wire_fini(struct wire *w);

/* Append a message. @keys of a request: generate has one user message "x". */
void put_hello(struct buf *b, uint32_t version);
void put_request(struct buf *b, enum proto_type type, uint64_t id);
void put_body(struct buf *b, const void *body, size_t len);

/* Write all of @b (the socket has room for it) and clear it. */
void wire_write(struct wire *w, struct buf *b);

/* Read available bytes; @e receives the next event. False: it is incomplete. */
bool wire_next(struct wire *w, struct proto_event *e);

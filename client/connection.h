/* SPDX-License-Identifier: MIT */
#pragma once
/* One connection to a daemon: requests out, events in. The first event has to be the daemon's hello. */
#include "libcommon/buf.h"
#include "libcommon/frame.h"
#include "libcommon/proto.h"
#include <stdbool.h>
#include <stdint.h>

struct connection {
    int fd; /* owned; -1: none */
    struct frame_decoder in;
    bool greeted; /* the daemon's hello has come */
};

#define CONNECTION_INIT                                                                                                \
    {                                                                                                                  \
        .fd = -1                                                                                                       \
    }

enum { CONNECTION_CLOSED = 1 }; /* the peer has closed: a positive outcome */

/* Takes @fd. */
void connection_open(struct connection *c, int fd);
void connection_close(struct connection *c);

/* Send all of it. @deadline is of interrupt_now, -1: none. 0; CONNECTION_CLOSED; -EINTR; -ETIMEDOUT; -errno with a
 * sentence.
 */
int connection_send(struct connection *c, const struct buf *frames, int64_t deadline);

/* Send without waiting, as far as it goes; for a farewell. */
void connection_send_now(struct connection *c, const struct buf *frames);

/*
 * Wait for the next event other than the hello and unknown ones. @deadline is of interrupt_now, -1: none;
 * @watch is a descriptor whose reader's end is waited for too, -1: none.
 * 0: the caller owns *e and calls proto_event_fini; CONNECTION_CLOSED; -EINTR; -ETIMEDOUT; -EPIPE: the reader of @watch
 * has gone; -EPROTO, -EBADMSG, -EMSGSIZE: the peer is no daemon that we can talk to; all others -errno; with sentences.
 */
int connection_next(struct connection *c, struct proto_event *e, int64_t deadline, int watch);

/* Append the first message of a connection. 0 or -ENOMEM. */
int connection_hello(struct buf *out);

/* SPDX-License-Identifier: MIT */
#pragma once
/* One connection to a daemon: requests out, events in. The first event has to be the daemon's hello. */
#include "libcommon/buf.h"
#include "libcommon/frame.h"
#include "libcommon/proto.h"
#include <stdbool.h>
#include <stdint.h>

struct link {
    int fd; /* owned; -1: none */
    struct frame_decoder in;
    bool greeted; /* the daemon's hello has come */
};

#define CONN_INIT                                                                                                      \
    {                                                                                                                  \
        .fd = -1                                                                                                       \
    }

enum { CONN_CLOSED = 1 }; /* the peer has closed: a positive outcome */

/* Takes @fd. */
void link_open(struct link *c, int fd);
void link_close(struct link *c);

/* Send all of it. @deadline is of interrupt_now, -1: none. 0; CONN_CLOSED; -EINTR; -ETIMEDOUT; -errno with a sentence.
 */
int link_send(struct link *c, const struct buf *frames, int64_t deadline);

/* Send without waiting, as far as it goes; for a farewell. */
void link_send_now(struct link *c, const struct buf *frames);

/*
 * Wait for the next event other than the hello and unknown ones. @deadline is of interrupt_now, -1: none;
 * @watch is a descriptor whose reader's end is waited for too, -1: none.
 * 0: the caller owns *e and calls proto_event_fini; CONN_CLOSED; -EINTR; -ETIMEDOUT; -EPIPE: the reader of @watch has
 * gone; -EPROTO, -EBADMSG, -EMSGSIZE: the peer is no daemon that we can talk to; all others -errno; with sentences.
 */
int link_next(struct link *c, struct proto_event *e, int64_t deadline, int watch);

/* Append the first message of a connection. 0 or -ENOMEM. */
int link_hello(struct buf *out);

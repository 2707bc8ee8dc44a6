/* SPDX-License-Identifier: MIT */
#pragma once
/* One connection to a daemon: sends requests, receives events. The first event must be the daemon's hello. */
#include "libcommon/buf.h"
#include "libcommon/frame.h"
#include "libcommon/proto.h"
#include <stdbool.h>
#include <stdint.h>

struct connection {
    int fd; /* owned; -1: none */
    struct frame_decoder in;
    bool greeted;   /* the daemon's hello arrived */
    bool sent_fds;  /* descriptors were sent */
    uint32_t needs; /* enum proto_feature: the request uses them */
};

#define CONNECTION_INIT                                                                                                \
    {                                                                                                                  \
        .fd = -1                                                                                                       \
    }

enum { CONNECTION_CLOSED = 1 }; /* the peer has closed: a positive outcome */

/* Takes ownership of @fd. */
void connection_open(struct connection *c, int fd);
void connection_close(struct connection *c);

/* Send all of @frames, with the descriptors @fds (NULL: none). @deadline: see interrupt_now; -1: none. 0;
 * CONNECTION_CLOSED; -EINTR; -ETIMEDOUT; -EREMOTEIO: the kernel refuses the descriptors; else -errno; sets the error
 * message. */
int connection_send(struct connection *c, const struct buf *frames, const struct proto_fds *fds, int64_t deadline);

/* Send without blocking, as much as the socket accepts. */
void connection_send_now(struct connection *c, const struct buf *frames);

/*
 * Wait for the next event other than hello and unknown events. @deadline: see interrupt_now; -1: none. @watch: a
 * descriptor whose reader may close, -1: none. 0: the caller owns *e and calls proto_event_fini; CONNECTION_CLOSED;
 * -EINTR; -ETIMEDOUT; -EPIPE: the reader of @watch closed it; -EPROTO, -EBADMSG, -EMSGSIZE: the peer is not a
 * compatible daemon; -EOPNOTSUPP: it lacks a feature of @c->needs; else -errno; sets the error message.
 */
int connection_next(struct connection *c, struct proto_event *e, int64_t deadline, int watch);

/* Append the first message of a connection. @user: the name of the user, for a gateway; else NULL. 0 or -ENOMEM. */
int connection_hello(struct buf *out, const char *user);

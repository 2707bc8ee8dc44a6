/* SPDX-License-Identifier: MIT */
#pragma once
/* Bytes on their way to a peer: messages are appended whole, and leave as the socket takes them. {0} is an empty one.
 */
#include "libcommon/buf.h"
#include "libcommon/proto.h"

struct outbox {
    struct buf b;
    size_t at; /* bytes of @b that are gone */
};

void outbox_fini(struct outbox *o);

/* Bytes that wait. */
size_t outbox_len(const struct outbox *o);
/* Bytes of memory it holds. */
size_t outbox_cap(const struct outbox *o);

/* 0, or -ENOMEM, -EMSGSIZE with nothing added. */
int outbox_add(struct outbox *o, const struct proto_event *e);

/* Write what the non-blocking socket @fd takes. 0: all is gone; 1: it takes no more now; else -errno (-EPIPE,
 * -ECONNRESET…). */
int outbox_flush(struct outbox *o, int fd);

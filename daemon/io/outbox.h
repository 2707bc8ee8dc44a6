/* SPDX-License-Identifier: MIT */
#pragma once
/* Output for a peer: whole messages are appended, and written as far as the socket takes them. {0} is empty. */
#include "libcommon/buf.h"
#include "libcommon/proto.h"

struct outbox {
    struct buf b;
    size_t at; /* bytes of @b that were written */
};

void outbox_fini(struct outbox *o);

/* Unwritten bytes. */
size_t outbox_len(const struct outbox *o);
/* Bytes of memory it holds. */
size_t outbox_cap(const struct outbox *o);

/* 0, or -ENOMEM, -EMSGSIZE with nothing added. */
int outbox_add(struct outbox *o, const struct proto_event *e);

/* Write as much as the non-blocking socket @fd takes. 0: all; 1: the socket is full; else -errno (-EPIPE,
 * -ECONNRESET…). */
int outbox_flush(struct outbox *o, int fd);

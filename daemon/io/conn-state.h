/* SPDX-License-Identifier: MIT */
#pragma once
/* What a connection is made of. Only conn.c, conn-read.c and conns.c include this. */
#include "daemon/io/conn.h"
#include "daemon/io/outbox.h"
#include "libcommon/frame.h"
#include <stddef.h>

struct live {
    uint64_t id;
    size_t bytes;
    bool job; /* counts for the account's jobs */
};

struct conn {
    struct conns *shared;
    sd_event_source *io;
    int fd; /* -1: the peer is gone */
    uint32_t watched;
    uint64_t id;
    struct account *account;
    uint64_t charged;
    struct fairq_entry entry;
    struct conn *next_unsent; /* of conns' list */
    bool unsent;              /* it is there */

    struct frame_decoder in;
    size_t errors;             /* messages that broke the protocol, less those that did not, 0 at least */
    struct proto_request held; /* read, and waits until its user has fewer jobs; type 0: none */
    struct conn *next_held;
    bool in_held; /* it is in the account's list of those that wait */
    struct outbox out;
    struct live *live; /* [n_live], no order */
    size_t n_live, live_cap, live_bytes;

    bool greeted;  /* its hello was good */
    bool readable; /* the socket has, or may have, more input */
    bool shut;     /* the peer has shut its writing side: behind the input is its end */
    bool eof;      /* it will send no more, or is not listened to any more */
    bool blocked;  /* the socket took no more output; epoll tells when it does */
    bool paused;   /* its answers are; nothing is read meanwhile */
    bool finished; /* ops->finished was called */
};

static inline struct conn *conn_of_entry(struct fairq_entry *t)
{
    return (struct conn *)((char *)t - offsetof(struct conn, entry));
}

/* conn.c: bring the uid's account up to date. -EDQUOT when it refuses. */
int conn_charge(struct conn *c);
/* Tell epoll what to watch for. */
void conn_watch(struct conn *c);
/* Close when nothing is left to be done. */
void conn_settle(struct conn *c);

/* conn-read.c: a job of this connection's user has ended; the next one may be handled. */
void conn_release_next(struct conn *c);
/* Forget the request that waits. */
void conn_forget_held(struct conn *c);

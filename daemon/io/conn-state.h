/* SPDX-License-Identifier: MIT */
#pragma once
/* The members of a connection. Only the files conn*.c include this. */
#include "daemon/io/conn-files.h"
#include "daemon/io/outbox.h"
#include "daemon/jobs/fair-queue.h"
#include "libcommon/frame.h"
#include "libcommon/proto.h"
#include <stddef.h>
#include <systemd/sd-event.h>

struct account;
struct conns;

struct live {
    uint64_t id;
    size_t bytes;
    bool job; /* counts for the account's jobs */
};

struct conn_input {
    struct frame_decoder frames;
    struct conn_files files;
    bool drained; /* its end was read: close(2) frees no messages */
};

struct conn {
    struct conns *shared;
    sd_event_source *io;
    int fd; /* -1: closed */
    uint32_t watched;
    uint64_t id;
    struct account *account;
    uint64_t charged;
    struct fairq_entry entry;
    struct conn *next_unsent; /* in conns' list */
    bool unsent;              /* it is in that list */

    struct conn_input in;
    size_t errors;             /* messages that broke the protocol, minus good ones, 0 at least */
    struct proto_request held; /* until its user has fewer jobs; type 0: none */
    struct conn *next_held;
    bool in_held; /* it is in the account's list */
    struct outbox out;
    struct live *live; /* [n_live], no order */
    size_t n_live, live_cap, live_bytes;

    bool greeted;  /* its hello was good */
    bool readable; /* the socket has, or may have, more input */
    bool shut;     /* the peer has shut its writing side: the end follows the input */
    bool eof;      /* nothing more is read: the peer ended, or was refused */
    bool blocked;  /* the socket is full; EPOLLOUT follows */
    bool paused;   /* its answers are paused; nothing is read meanwhile */
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
/* Nothing more is read: free the input. */
void conn_end_input(struct conn *c);
/* Close if no request is live and no output is left. */
void conn_settle(struct conn *c);

/* conn-queue.c: switch an event source; an error is logged. */
void conns_enable(sd_event_source *source, int how);
/* A job of this connection's user has ended; the next one may be handled. */
void conn_release_next(struct conn *c);
/* Drop the held request. */
void conn_forget_held(struct conn *c);

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The data that the engine's thread and other threads exchange, guarded by one lock: incoming requests and control
 * flags, finished jobs, outgoing events, and the counts that decide whether a user may submit.
 */
#include "daemon/jobs/returns.h"
#include "daemon/request/config.h"
#include "daemon/request/event-queue.h"
#include "daemon/request/user.h"

struct named_users;
struct request;

struct request_list {
    struct request *head, *tail;
};

/* A connection whose reader is slow. */
struct paused_conn {
    uint64_t conn;
    struct paused_conn *next;
};

struct mailbox {
    pthread_mutex_t lock;
    pthread_cond_t wake; /* of the engine's thread */
    bool kick;           /* the engine's thread has work, and does not wait */
    bool control;        /* control flags of requests changed since the engine's thread took them over */
    bool draining;       /* no new requests */
    bool quit;
    enum engine_state state;
    char *error; /* set once, with ENGINE_FAILED; NULL: no memory for it */
    struct event_queue *events;
    struct request_list inbox;  /* submitted, not taken yet */
    struct job_returns returns; /* of the jobs of the engine's thread */
    struct users users;
    struct named_users *named_users; /* owned by the engine; has a lock of its own */
    uint32_t load;                   /* requests without their last event */
    uint32_t detached;               /* of these, those that go on without their peer */
    struct paused_conn *paused;
};

int mailbox_init(struct mailbox *m); /* 0; -ENOMEM; -errno of eventfd. mailbox_fini in either case */
void mailbox_fini(struct mailbox *m);

/* Let the engine's thread look for work. mailbox_kick takes the lock. */
void mailbox_kick(struct mailbox *m);
void mailbox_kick_locked(struct mailbox *m);

/* The engine has failed because of @why (NULL: no memory), which the mailbox takes. Only the first reason stays. */
void mailbox_fail_locked(struct mailbox *m, char *why);

/* With the lock held. */
bool mailbox_is_paused(const struct mailbox *m, uint64_t conn);
void mailbox_pause(struct mailbox *m, uint64_t conn, bool pause);

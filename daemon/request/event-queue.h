/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Events on their way to the connections: a list that grows, so that the engine never waits for its reader, and an
 * eventfd that is readable while the list has events. The caller holds the lock that guards the queue.
 */
#include "libcommon/proto.h"
#include <stdbool.h>
#include <stdint.h>

/* An event for request ev.id of connection @conn. The receiver calls proto_event_fini. */
struct engine_event {
    uint64_t conn;
    bool last; /* no event follows for this request */
    struct proto_event ev;
};

struct event_queue;

/* A list element. Allocated ahead of time for an event that must not fail: the end of an answer. */
struct event_node {
    struct event_node *next;
    struct engine_event event;
};

int event_queue_new(struct event_queue **out);               /* 0, -ENOMEM, -errno of eventfd */
struct event_queue *event_queue_free(struct event_queue *q); /* NULL ok; frees the events too; returns NULL */

int event_queue_fd(const struct event_queue *q);

/* On 0 takes the contents of @ev (zero afterwards) and @node, which was allocated by malloc; NULL: allocates one.
 * -ENOMEM: the caller still owns @ev. */
int event_queue_push(struct event_queue *q, struct engine_event *ev, struct event_node *node);
/* The next event, whose contents the caller then owns. False: there is none, and the eventfd is cleared. */
bool event_queue_pop(struct event_queue *q, struct engine_event *out);
/* Wake the reader without an event. */
void event_queue_signal(struct event_queue *q);

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Events on their way out: a list that grows, so that nobody waits for its reader, and an eventfd that is readable while
 * there are some. The engine's lock, which the caller holds, guards it.
 */
#include "daemon/engine/engine.h"
#include <pthread.h>

struct queue;

/* An event in the list. Made ahead of time for what must not fail: the end of an answer. */
struct queue_node {
    struct queue_node *next;
    struct engine_event event;
};

int queue_new(struct queue **out);         /* 0, -ENOMEM, -errno of eventfd */
struct queue *queue_free(struct queue *q); /* NULL ok; frees the events too; returns NULL */

int queue_fd(const struct queue *q);

/* Takes what @ev holds (zero after), and @node, which was made by malloc; NULL: one is made. 0; -ENOMEM, and the caller
 * still owns @ev. */
int queue_push(struct queue *q, struct engine_event *ev, struct queue_node *node);
/* Next event, whose contents the caller then owns; false: none, and the eventfd is cleared. */
bool queue_pop(struct queue *q, struct engine_event *out);
/* Wake the reader without an event. */
void queue_signal(struct queue *q);

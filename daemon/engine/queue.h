/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Events on their way out: a bounded ring and an eventfd that is readable while there are some. The engine's lock,
 * which the caller holds, guards it.
 */
#include "daemon/engine/engine.h"
#include <pthread.h>

struct queue;

int queue_new(struct queue **out, size_t cap); /* 0, -ENOMEM, -errno of eventfd */
struct queue *queue_free(struct queue *q);     /* NULL ok; frees the events too; returns NULL */

int queue_fd(const struct queue *q);
bool queue_full(const struct queue *q);

/* Takes what @ev holds (zero after). The queue is not full. */
void queue_push(struct queue *q, struct engine_event *ev);
/* Next event, whose contents the caller then owns; false: none, and the eventfd is cleared. */
bool queue_pop(struct queue *q, struct engine_event *out);
/* Wake the reader without an event. */
void queue_signal(struct queue *q);

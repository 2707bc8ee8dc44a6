/* SPDX-License-Identifier: MIT */
#include "daemon/request/event-queue.h"
#include "libcommon/error.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct event_queue {
    int fd;
    struct event_node *first, *last;
};

int event_queue_new(struct event_queue **out)
{
    struct event_queue *q = calloc(1, sizeof(*q));
    if (!q) return -ENOMEM;
    q->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (q->fd < 0) {
        free(q);
        return error_origin(-errno);
    }
    *out = q;
    return 0;
}

struct event_queue *event_queue_free(struct event_queue *q)
{
    if (!q) return NULL;
    struct engine_event ev;
    while (event_queue_pop(q, &ev)) proto_event_fini(&ev.ev);
    close(q->fd);
    free(q);
    return NULL;
}

int event_queue_fd(const struct event_queue *q)
{
    return q->fd;
}

void event_queue_signal(struct event_queue *q)
{
    ssize_t n = write(q->fd, &(uint64_t){1}, sizeof(uint64_t));
    assert(n == (ssize_t)sizeof(uint64_t) || errno == EAGAIN);
}

int event_queue_push(struct event_queue *q, struct engine_event *ev, struct event_node *node)
{
    if (!node) node = malloc(sizeof(*node));
    if (!node) return -ENOMEM;
    *node = (struct event_node){.event = *ev};
    memset(ev, 0, sizeof(*ev));
    if (q->last)
        q->last->next = node;
    else
        q->first = node;
    if (!q->last) event_queue_signal(q);
    q->last = node;
    return 0;
}

bool event_queue_pop(struct event_queue *q, struct engine_event *out)
{
    struct event_node *node = q->first;
    if (!node) {
        uint64_t count;
        ssize_t n = read(q->fd, &count, sizeof(count));
        assert(n == (ssize_t)sizeof(count) || errno == EAGAIN);
        return false;
    }
    q->first = node->next;
    if (!q->first) q->last = NULL;
    *out = node->event;
    free(node);
    return true;
}

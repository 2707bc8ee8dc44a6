/* SPDX-License-Identifier: MIT */
#include "daemon/engine/queue.h"
#include "libcommon/error.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct queue {
    int fd;
    struct queue_node *first, *last;
};

int queue_new(struct queue **out)
{
    struct queue *q = calloc(1, sizeof(*q));
    if (!q) return -ENOMEM;
    q->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (q->fd < 0) {
        free(q);
        return error_origin(-errno);
    }
    *out = q;
    return 0;
}

struct queue *queue_free(struct queue *q)
{
    if (!q) return NULL;
    struct engine_event ev;
    while (queue_pop(q, &ev)) proto_event_fini(&ev.ev);
    close(q->fd);
    free(q);
    return NULL;
}

int queue_fd(const struct queue *q)
{
    return q->fd;
}

void queue_signal(struct queue *q)
{
    ssize_t n = write(q->fd, &(uint64_t){1}, sizeof(uint64_t));
    assert(n == (ssize_t)sizeof(uint64_t) || errno == EAGAIN);
}

int queue_push(struct queue *q, struct engine_event *ev, struct queue_node *node)
{
    if (!node) node = malloc(sizeof(*node));
    if (!node) return -ENOMEM;
    *node = (struct queue_node){.event = *ev};
    memset(ev, 0, sizeof(*ev));
    if (q->last)
        q->last->next = node;
    else
        q->first = node;
    if (!q->last) queue_signal(q);
    q->last = node;
    return 0;
}

bool queue_pop(struct queue *q, struct engine_event *out)
{
    struct queue_node *node = q->first;
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

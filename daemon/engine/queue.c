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
    size_t cap, head, n;
    struct engine_event ring[];
};

int queue_new(struct queue **out, size_t cap)
{
    struct queue *q = calloc(1, sizeof(*q) + cap * sizeof(*q->ring));
    if (!q) return -ENOMEM;
    q->cap = cap;
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

bool queue_full(const struct queue *q)
{
    return q->n == q->cap;
}

void queue_signal(struct queue *q)
{
    ssize_t n = write(q->fd, &(uint64_t){1}, sizeof(uint64_t));
    assert(n == (ssize_t)sizeof(uint64_t) || errno == EAGAIN);
}

void queue_push(struct queue *q, struct engine_event *ev)
{
    assert(q->n < q->cap);
    q->ring[(q->head + q->n++) % q->cap] = *ev;
    memset(ev, 0, sizeof(*ev));
    if (q->n == 1) queue_signal(q);
}

bool queue_pop(struct queue *q, struct engine_event *out)
{
    if (q->n == 0) {
        uint64_t count;
        ssize_t n = read(q->fd, &count, sizeof(count));
        assert(n == (ssize_t)sizeof(count) || errno == EAGAIN);
        return false;
    }
    *out = q->ring[q->head];
    q->head = (q->head + 1) % q->cap;
    q->n--;
    return true;
}

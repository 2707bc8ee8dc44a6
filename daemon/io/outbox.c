/* SPDX-License-Identifier: MIT */
#include "daemon/io/outbox.h"
#include "libcommon/error.h"
#include <sys/socket.h>

enum { KEEP = 64 << 10 }; /* an empty outbox keeps no more memory than this */

void outbox_fini(struct outbox *o)
{
    buf_fini(&o->b);
    o->at = 0;
}

size_t outbox_len(const struct outbox *o)
{
    return o->b.len - o->at;
}

size_t outbox_cap(const struct outbox *o)
{
    return o->b.cap;
}

int outbox_add(struct outbox *o, const struct proto_event *e)
{
    /* Moving the rest to the front costs as much as was sent since the last time, at most. */
    if (o->at > o->b.len / 2) {
        buf_consume(&o->b, o->at);
        o->at = 0;
    }
    return proto_write_event(&o->b, e);
}

int outbox_flush(struct outbox *o, int fd)
{
    while (o->at < o->b.len) {
        ssize_t n = send(fd, o->b.data + o->at, o->b.len - o->at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return 1;
        if (n < 0) return -errno;
        o->at += (size_t)n;
    }
    o->at = 0;
    buf_clear(&o->b);
    if (o->b.cap > KEEP) buf_fini(&o->b);
    return 0;
}

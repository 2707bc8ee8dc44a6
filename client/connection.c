/* SPDX-License-Identifier: MIT */
#include "client/connection.h"
#include "client/interrupt.h"
#include "libcommon/error.h"
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTION_CHUNK (16u << 10)

void connection_open(struct connection *c, int fd)
{
    *c = (struct connection){.fd = fd};
}

void connection_close(struct connection *c)
{
    if (c->fd >= 0) close(c->fd);
    frame_decoder_fini(&c->in);
    *c = (struct connection)CONNECTION_INIT;
}

int connection_hello(struct buf *out, const char *user)
{
    struct proto_request hello = {.type = PROTO_HELLO, .version = PROTO_VERSION};
    if (user) hello.user = (struct proto_text){(char *)user, strlen(user)};
    return proto_write_request(out, &hello);
}

/* As send(2), without waiting. The first bytes that are taken carry the descriptors. */
static ssize_t send_some(struct connection *c, const char *p, size_t n, const struct proto_fds *fds)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(PROTO_MEDIA_MAX * sizeof(int))];
    } control = {0};
    struct iovec piece = {(char *)p, n};
    struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1};
    if (fds && fds->n && !c->sent_fds) {
        const size_t bytes = fds->n * sizeof(int);
        control.head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(bytes)};
        memcpy(CMSG_DATA(&control.head), fds->fds, bytes);
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(bytes);
    }
    ssize_t done = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done > 0 && m.msg_controllen) c->sent_fds = true;
    return done;
}

int connection_send(struct connection *c, const struct buf *frames, const struct proto_fds *fds, int64_t deadline)
{
    const char *p = frames->data;
    size_t n = frames->len;
    while (n > 0) {
        struct pollfd pfd = {.fd = c->fd, .events = POLLOUT};
        ssize_t done = send_some(c, p, n, fds);
        int r;
        if (done >= 0) {
            p += done;
            n -= (size_t)done;
        } else if (errno == EAGAIN) {
            r = interrupt_poll(&pfd, 1, deadline);
            if (r < 0) return r;
            if (r == 0) return error_say(-ETIMEDOUT, "the daemon did not accept the request in time");
        } else if (errno == EPIPE || errno == ECONNRESET) {
            return CONNECTION_CLOSED;
        } else if (errno == ETOOMANYREFS) {
            return error_say(-EREMOTEIO, "cannot send descriptors: too many of this user are on their way");
        } else if (errno != EINTR) {
            r = error_origin(-errno);
            return error_in(r, "cannot send the request");
        }
    }
    return 0;
}

void connection_send_now(struct connection *c, const struct buf *frames)
{
    ssize_t n = send(c->fd, frames->data, frames->len, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)n;
}

/* Wait for bytes and receive them. Returns like connection_next. */
static int connection_fill(struct connection *c, int64_t deadline, int watch)
{
    struct pollfd fds[2] = {{.fd = c->fd, .events = POLLIN}, {.fd = watch}};
    char chunk[CONNECTION_CHUNK];
    int r = interrupt_poll(fds, 2, deadline);
    if (r == -EINTR) return r;
    if (r < 0) return error_say(r, "cannot wait for the daemon");
    if (r == 0) return error_say(-ETIMEDOUT, "no answer in time");
    if (!fds[0].revents) return fds[1].revents & (POLLERR | POLLHUP) ? -EPIPE : 0;
    ssize_t n = recv(c->fd, chunk, sizeof(chunk), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno == ECONNRESET)) return CONNECTION_CLOSED;
    if (n < 0) {
        if (errno == EAGAIN || errno == EINTR) return 0;
        r = error_origin(-errno);
        return error_in(r, "cannot read from the daemon");
    }
    r = frame_feed(&c->in, chunk, (size_t)n);
    return r < 0 ? error_in(r, "invalid message from the daemon") : 0;
}

/* 0: *e is an event for the caller; 1: the event was handled here. */
static int connection_take(struct connection *c, struct proto_event *e)
{
    if (e->type == PROTO_EV_HELLO) {
        if (e->version != PROTO_VERSION)
            return error_say(-EPROTO, "the daemon has protocol version %u, hob has %d; restart the daemon",
                             (unsigned)e->version, PROTO_VERSION);
        if (c->needs & ~e->features)
            return error_say(-EOPNOTSUPP, "the daemon has no feature '%s', it is older than hob; restart it",
                             proto_feature_name(c->needs & ~e->features));
        c->greeted = true;
        return 1;
    }
    /* A daemon of another protocol version answers hello with this error. */
    if (!c->greeted && e->type == PROTO_EV_ERROR && e->id == 0 && e->code == EPROTO)
        return error_say(-EPROTO, "the daemon and hob have different protocol versions, restart the daemon: %s",
                         e->message.len ? e->message.data : "no hello");
    /* A daemon may refuse the connection before it sends hello. */
    if (!c->greeted && e->type != PROTO_EV_ERROR)
        return error_say(-EPROTO, "the peer at the socket is not hobd: it sent no hello");
    return e->type == PROTO_EV_UNKNOWN;
}

int connection_next(struct connection *c, struct proto_event *e, int64_t deadline, int watch)
{
    for (;;) {
        const char *body;
        size_t len;
        int r = frame_peek(&c->in, &body, &len);
        if (r < 0) return error_in(r, "invalid message from the daemon");
        if (r == 0) {
            r = connection_fill(c, deadline, watch);
            if (r != 0) return r;
            continue;
        }
        r = proto_read_event(e, body, len);
        frame_pop(&c->in);
        if (r == -EPROTO) return error_in(r, "the daemon and hob have different protocol versions, restart the daemon");
        if (r < 0) return error_in(r, "invalid message from the daemon");
        r = connection_take(c, e);
        if (r == 0) return 0;
        proto_event_fini(e);
        if (r < 0) return r;
    }
}

/* SPDX-License-Identifier: MIT */
#include "client/http/upstream.h"
#include "client/connection.h"
#include "libcommon/error.h"
#include "libcommon/frame.h"
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { UPSTREAM_CHUNK = 16 << 10 };

struct upstream {
    int fd;
    sd_event_source *source;
    struct frame_decoder in;
    struct buf out; /* not yet sent */
    size_t sent;    /* bytes of @out that are sent */
    bool greeted;   /* the daemon's hello arrived */
    bool paused;
    bool calling; /* inside fn: closing is delayed until it returns */
    bool closed;
    upstream_fn fn;
    void *ctx;
};

static void upstream_free(struct upstream *u)
{
    sd_event_source_disable_unref(u->source);
    if (u->fd >= 0) close(u->fd);
    frame_decoder_fini(&u->in);
    buf_fini(&u->out);
    free(u);
}

struct upstream *upstream_close(struct upstream *u)
{
    if (!u) return NULL;
    u->closed = true;
    if (!u->calling) upstream_free(u);
    return NULL;
}

/* Listen for the directions in which something can happen. */
static void update(struct upstream *u)
{
    uint32_t events = (u->paused ? 0 : EPOLLIN) | (u->sent < u->out.len ? EPOLLOUT : 0);
    sd_event_source_set_io_events(u->source, events);
    /* epoll reports EPOLLHUP in any case: a paused connection must not wake the loop again and again. */
    sd_event_source_set_enabled(u->source, events ? SD_EVENT_ON : SD_EVENT_OFF);
}

void upstream_pause(struct upstream *u, bool paused)
{
    if (!u || u->paused == paused) return;
    u->paused = paused;
    update(u);
}

static int flush(struct upstream *u)
{
    while (u->sent < u->out.len) {
        ssize_t n = send(u->fd, u->out.data + u->sent, u->out.len - u->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) return 0;
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            /* The daemon may have sent the reason before it closed the connection: the next read finds it. If it was
             * not the daemon (ENOBUFS), it closes the connection now. */
            (void)shutdown(u->fd, SHUT_WR);
            break;
        }
        u->sent += (size_t)n;
    }
    u->sent = 0;
    buf_fini(&u->out);
    return 0;
}

static int receive(struct upstream *u)
{
    char chunk[UPSTREAM_CHUNK];
    ssize_t n = recv(u->fd, chunk, sizeof(chunk), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (n == 0 || (n < 0 && errno == ECONNRESET)) return error_say(-ECONNRESET, "the daemon closed the connection");
    if (n < 0) {
        int r = error_origin(-errno);
        return error_in(r, "cannot read from the daemon");
    }
    return frame_feed(&u->in, chunk, (size_t)n);
}

/* Pass one event on. 0, or negative: the connection is of no further use. */
static int take(struct upstream *u, struct proto_event *e)
{
    if (e->type == PROTO_EV_HELLO) {
        u->greeted = true;
        return 0;
    }
    if (e->type == PROTO_EV_UNKNOWN) return 0;
    if (!u->greeted && e->type != PROTO_EV_ERROR)
        return error_say(-EPROTO, "the peer at the socket is not hobd: it sent no hello");
    u->fn(u->ctx, e, 0);
    return 0;
}

/* Pass on all whole events of one read, also while paused: they are no more than UPSTREAM_CHUNK bytes. */
static int deliver(struct upstream *u)
{
    const char *body;
    size_t len;
    int r = 0;
    while (r == 0 && !u->closed && (r = frame_peek(&u->in, &body, &len)) > 0) {
        struct proto_event e;
        r = proto_read_event(&e, body, len);
        frame_pop(&u->in);
        if (r < 0) return error_in(r, "invalid message from the daemon");
        r = take(u, &e);
        proto_event_fini(&e);
    }
    if (u->in.in.len == 0) frame_decoder_fini(&u->in); /* an idle connection keeps no memory */
    return r;
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *ctx)
{
    struct upstream *u = ctx;
    int r = 0;
    u->calling = true;
    if (revents & EPOLLOUT) r = flush(u);
    if (r == 0 && !u->paused && revents & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        r = receive(u);
        if (r == 0) r = deliver(u);
    }
    if (r < 0 && !u->closed) {
        sd_event_source_set_enabled(source, SD_EVENT_OFF);
        u->fn(u->ctx, NULL, r);
    } else if (!u->closed) {
        update(u);
    }
    u->calling = false;
    if (u->closed) upstream_free(u);
    return 0;
}

static int connect_now(int fd, const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(a.sun_path)) return error_say(-ENAMETOOLONG, "the socket path %s is too long", path);
    strcpy(a.sun_path, path);
    if (connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0) return 0;
    switch (errno) {
    case ENOENT:
    case ENOTDIR:
    case ECONNREFUSED:
        return error_say(-ENOENT, "no daemon listens at %s", path);
    case EAGAIN:
        return error_say(-EAGAIN, "the daemon at %s has too many new connections", path);
    default:
        return error_say(-errno, "cannot connect to %s: %s", path, strerror(errno));
    }
}

int upstream_open(struct upstream **out, sd_event *event, const char *path, const char *user,
                  const struct proto_request *request, upstream_fn fn, void *ctx)
{
    struct upstream *u = calloc(1, sizeof(*u));
    *out = NULL;
    if (!u) return error_origin(-ENOMEM);
    *u = (struct upstream){.fn = fn, .ctx = ctx};
    u->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r = u->fd < 0 ? error_origin(-errno) : connect_now(u->fd, path);
    if (r == 0) r = connection_hello(&u->out, user);
    if (r == 0) r = proto_write_request(&u->out, request);
    if (r == 0) r = sd_event_add_io(event, &u->source, u->fd, EPOLLIN, on_io, u);
    if (r == 0) r = flush(u);
    if (r < 0) {
        upstream_free(u);
        return r;
    }
    update(u);
    *out = u;
    return 0;
}

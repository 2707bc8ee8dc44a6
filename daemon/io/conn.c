/* SPDX-License-Identifier: MIT */
#include "daemon/io/conn.h"
#include "daemon/io/outbox.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/frame.h"
#include "libcommon/log.h"
#include <assert.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
    READ_CHUNK = 64 << 10,
    READS_PER_WAKE = 16, /* then the other connections have their turn */
};

const struct conn_limits conn_limits_default = {
    .high = 256 << 10, .low = 64 << 10, .hard = 4 << 20, .requests = 1024, .frame = FRAME_MAX};

struct live {
    uint64_t id;
    size_t bytes;
};

struct conn {
    const struct conn_limits *limits;
    const struct conn_ops *ops;
    void *ctx;
    sd_event_source *io;
    int fd; /* -1: the peer is gone */
    uint32_t watched;
    uint64_t id;
    uid_t uid;
    struct account *account;
    uint64_t charged;

    struct frame_decoder in;
    struct outbox out;
    struct live *live; /* [n_live], no order */
    size_t n_live, live_cap, live_bytes;

    bool greeted;  /* its hello was good */
    bool eof;      /* it will send no more, or is not listened to any more */
    bool paused;   /* its answers are; nothing is read meanwhile */
    bool resume;   /* paused no longer: handle what was read before */
    bool finished; /* ops->finished was called */
};

/* Bring the uid's account up to date. -EDQUOT when it refuses. */
static int charge(struct conn *c)
{
    return account_charge(c->account, &c->charged, c->in.in.cap + outbox_cap(&c->out) + c->live_bytes);
}

/* What epoll should tell. EPOLLHUP (the peer closed both ways) is always told. */
static void watch(struct conn *c)
{
    uint32_t want = 0;
    int r;

    if (c->fd < 0) return;
    if (!c->eof && !c->paused) want |= EPOLLIN;
    if (outbox_len(&c->out) || c->resume) want |= EPOLLOUT;
    if (want == c->watched) return;
    r = sd_event_source_set_io_events(c->io, want);
    if (r < 0) {
        log_error("connection %llu: %s", (unsigned long long)c->id, strerror(-r));
        conn_drop(c);
        return;
    }
    c->watched = want;
}

static void pause_or_go_on(struct conn *c)
{
    size_t waiting = outbox_len(&c->out);
    bool pause = c->paused ? waiting > c->limits->low : waiting > c->limits->high;

    if (pause == c->paused) return;
    c->paused = pause;
    c->resume = !pause; /* not here: the caller may be in the middle of a message */
    c->ops->pause(c->ctx, c, pause);
}

/* Close when nothing is left to be done. */
static void settle(struct conn *c)
{
    if (c->fd >= 0 && c->eof && c->n_live == 0 && outbox_len(&c->out) == 0) conn_drop(c);
    if (c->fd >= 0 || c->n_live || c->finished) return;
    c->finished = true;
    c->ops->finished(c->ctx, c);
}

static void flush(struct conn *c)
{
    int r;

    if (c->fd < 0) return;
    r = outbox_flush(&c->out, c->fd);
    if (r < 0) {
        log_debug("connection %llu: %s", (unsigned long long)c->id, strerror(-r));
        conn_drop(c);
        return;
    }
    charge(c); /* less never fails */
    pause_or_go_on(c);
    watch(c);
    settle(c);
}

void conn_drop(struct conn *c)
{
    if (c->fd < 0) return;
    c->eof = true;
    c->io = sd_event_source_disable_unref(c->io);
    close(c->fd);
    c->fd = -1;
    frame_decoder_fini(&c->in);
    outbox_fini(&c->out);
    charge(c);
    /* A paused sequence would never get to its end. */
    if (c->paused) {
        c->paused = false;
        c->ops->pause(c->ctx, c, false);
    }
    for (size_t i = c->n_live; i > 0; i--) c->ops->abandon(c->ctx, c, c->live[i - 1].id);
    settle(c);
}

void conn_finish(struct conn *c)
{
    if (c->fd < 0) return;
    c->eof = true;
    frame_decoder_fini(&c->in);
    charge(c);
    watch(c);
    settle(c);
}

/* An error in the place of @e, which is too large; a text is not the last of its request. */
static void replace(struct conn *c, const struct proto_event *e, const char *why)
{
    const struct proto_event error = {.type = PROTO_EV_ERROR,
                                      .id = e->id,
                                      .index = e->index,
                                      .more = e->more || e->type == PROTO_EV_TEXT,
                                      .code = EMSGSIZE,
                                      .message = {(char *)why, strlen(why)}};

    conn_send(c, &error);
}

void conn_send(struct conn *c, const struct proto_event *e)
{
    int r;

    if (c->fd < 0) return;
    if (outbox_len(&c->out) > c->limits->hard) {
        log_warning("connection %llu of uid %lu: its reader is %zu bytes behind; dropped", (unsigned long long)c->id,
                    (unsigned long)c->uid, outbox_len(&c->out));
        conn_drop(c);
        return;
    }
    r = outbox_add(&c->out, e);
    if (r == -EMSGSIZE && e->type != PROTO_EV_ERROR) {
        replace(c, e, error_text(r));
        return;
    }
    if (r == 0) r = charge(c);
    if (r < 0) {
        /* An answer with a hole in it is none. */
        log_warning("connection %llu of uid %lu: %s; dropped", (unsigned long long)c->id, (unsigned long)c->uid,
                    error_text(r));
        conn_drop(c);
        return;
    }
    flush(c);
}

void conn_send_error(struct conn *c, uint64_t id, int code, const char *message)
{
    struct proto_event e = {
        .type = PROTO_EV_ERROR, .id = id, .code = code, .message = {(char *)message, strlen(message)}};

    conn_send(c, &e);
}

/* The peer broke the rules of the wire: say so, listen no more. */
static void refuse(struct conn *c, int code, const char *message)
{
    log_debug("connection %llu of uid %lu: %s", (unsigned long long)c->id, (unsigned long)c->uid, message);
    c->eof = true;
    frame_decoder_fini(&c->in);
    conn_send_error(c, 0, code, message);
    conn_finish(c);
}

static void greet(struct conn *c, int r, const struct proto_request *req)
{
    const struct proto_event hello = {.type = PROTO_EV_HELLO, .id = req->id, .version = PROTO_VERSION};
    char text[160];

    if (r == -EPROTO) {
        snprintf(text, sizeof text, "the daemon speaks version %d of the protocol, not %lu", PROTO_VERSION,
                 (unsigned long)req->version);
        refuse(c, EPROTO, text);
    } else if (r == -EBADMSG) {
        refuse(c, EBADMSG, error_text(r));
    } else if (r < 0 && req->type == PROTO_HELLO) {
        refuse(c, EPROTO, error_text(r));
    } else if (r < 0 || req->type != PROTO_HELLO) {
        refuse(c, EPROTO, "the first message has to be hello");
    } else {
        c->greeted = true;
        conn_send(c, &hello);
    }
}

/* One body. */
static void message(struct conn *c, const char *body, size_t len)
{
    struct proto_request req = {0};
    int r = proto_read_request(&req, body, len);

    if (!c->greeted)
        greet(c, r, &req);
    else if (r == -EBADMSG)
        refuse(c, EBADMSG, error_text(r));
    else if (r < 0)
        conn_send_error(c, req.id, r == -EPROTO ? EPROTO : -r, error_text(r));
    else if (req.type == PROTO_HELLO)
        conn_send_error(c, req.id, EINVAL, "hello was said already");
    else
        c->ops->request(c->ctx, c, &req);
    proto_request_fini(&req);
}

static void messages(struct conn *c)
{
    const char *body;
    size_t len;
    int r = 0;

    /* Each step may end the connection, or find that its reader is slow. */
    while (!c->eof && !c->paused && (r = frame_peek(&c->in, &body, &len)) == 1) {
        message(c, body, len);
        if (!c->eof) frame_pop(&c->in);
    }
    if (r < 0 && !c->eof) refuse(c, -r, error_text(r));
}

/* 1 go on, 0 nothing more now (or ever). */
static int read_some(struct conn *c)
{
    char piece[READ_CHUNK];
    ssize_t n = recv(c->fd, piece, sizeof piece, MSG_DONTWAIT);
    int r;

    if (n < 0 && errno == EINTR) return 1;
    if (n < 0 && errno == EAGAIN) return 0;
    if (n < 0) {
        conn_drop(c);
        return 0;
    }
    if (n == 0) {
        /* Only its writing side is shut, else EPOLLHUP would have told: what it asked for is still answered. */
        c->eof = true;
        frame_decoder_fini(&c->in);
        charge(c);
        return 0;
    }
    r = frame_feed(&c->in, piece, (size_t)n);
    if (r == 0) r = charge(c);
    if (r < 0 && r != -EMSGSIZE) {
        refuse(c, -r, error_text(r));
        return 0;
    }
    messages(c); /* this finds a wrong length too */
    return !c->eof && !c->paused;
}

void conn_read(struct conn *c)
{
    c->resume = false;
    if (!c->eof && !c->paused) messages(c); /* what waited while the reader was slow */
    for (int i = 0; i < READS_PER_WAKE && !c->eof && !c->paused; i++)
        if (read_some(c) == 0) break;
    charge(c);
    watch(c);
    settle(c);
}

static int on_io(sd_event_source *s, int fd, uint32_t events, void *ctx)
{
    struct conn *c = ctx;

    if (events & (EPOLLHUP | EPOLLERR)) {
        conn_drop(c);
        return 0;
    }
    if (events & EPOLLOUT) {
        flush(c);
        if (c->resume) conn_read(c);
    }
    if (events & EPOLLIN) conn_read(c);
    return 0;
}

int conn_new(struct conn **out, struct sd_event *event, int fd, uint64_t id, uid_t uid, struct account *a,
             const struct conn_limits *limits, const struct conn_ops *ops, void *ctx)
{
    struct conn *c = calloc(1, sizeof *c);
    int r;

    if (!c) {
        close(fd);
        account_close(a);
        return error_origin(-ENOMEM);
    }
    *c = (struct conn){.limits = limits,
                       .ops = ops,
                       .ctx = ctx,
                       .fd = fd,
                       .id = id,
                       .uid = uid,
                       .account = a,
                       .watched = EPOLLIN,
                       .in = {.max = limits->frame}};
    r = sd_event_add_io(event, &c->io, fd, c->watched, on_io, c);
    if (r < 0) {
        conn_free(c);
        return error_origin(r);
    }
    *out = c;
    return 0;
}

struct conn *conn_free(struct conn *c)
{
    if (!c) return NULL;
    sd_event_source_disable_unref(c->io);
    if (c->fd >= 0) close(c->fd);
    frame_decoder_fini(&c->in);
    outbox_fini(&c->out);
    free(c->live);
    account_charge(c->account, &c->charged, 0);
    account_close(c->account);
    free(c);
    return NULL;
}

uint64_t conn_id(const struct conn *c)
{
    return c->id;
}

uid_t conn_uid(const struct conn *c)
{
    return c->uid;
}

static struct live *find_live(const struct conn *c, uint64_t id)
{
    for (size_t i = 0; i < c->n_live; i++)
        if (c->live[i].id == id) return &c->live[i];
    return NULL;
}

int conn_begin(struct conn *c, uint64_t id, size_t bytes)
{
    int r;

    if (find_live(c, id))
        return error_say(-EINVAL, "id %llu is used by a request that has not ended", (unsigned long long)id);
    if (c->n_live >= c->limits->requests)
        return error_say(-EBUSY, "this connection has %zu live requests and gets no more", c->n_live);
    if (c->n_live == c->live_cap) {
        size_t cap = c->live_cap ? 2 * c->live_cap : 4;
        struct live *live = reallocarray(c->live, cap, sizeof *live);

        if (!live) return error_origin(-ENOMEM);
        c->live = live;
        c->live_cap = cap;
    }
    c->live_bytes += bytes;
    r = charge(c);
    if (r < 0) {
        c->live_bytes -= bytes;
        return r;
    }
    c->live[c->n_live++] = (struct live){id, bytes};
    return 0;
}

void conn_end(struct conn *c, uint64_t id)
{
    struct live *l = find_live(c, id);

    if (!l) return;
    c->live_bytes -= l->bytes;
    *l = c->live[--c->n_live];
    charge(c);
    settle(c);
}

bool conn_is_live(const struct conn *c, uint64_t id)
{
    return find_live(c, id) != NULL;
}

size_t conn_live(const struct conn *c)
{
    return c->n_live;
}

uint64_t conn_live_at(const struct conn *c, size_t i)
{
    assert(i < c->n_live);
    return c->live[i].id;
}

bool conn_paused(const struct conn *c)
{
    return c->paused;
}

bool conn_is_gone(const struct conn *c)
{
    return c->fd < 0;
}

bool conn_flushed(const struct conn *c)
{
    return outbox_len(&c->out) == 0;
}

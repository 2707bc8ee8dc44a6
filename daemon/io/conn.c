/* SPDX-License-Identifier: MIT */
#include "daemon/io/conn.h"
#include "daemon/io/close-apart.h"
#include "daemon/io/conn-state.h"
#include "daemon/io/conns.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* About the main thread's time for an event of input, and the output that it makes and writes in a microsecond. */
enum { EVENT_USEC = 3, BYTES_PER_USEC = 2048 };

static void charge_time(struct conn *c, uint64_t usec)
{
    if (usec) fairq_charge(&c->shared->queue, account_queue(c->account), usec, clock_now_usec());
}

const struct conn_limits conn_limits_default = {.high = 256 << 10,
                                                .low = 64 << 10,
                                                .hard = 4 << 20,
                                                .requests = 1024,
                                                .frame = FRAME_MAX,
                                                .errors = 32,
                                                .jobs = 32};

int conn_charge(struct conn *c)
{
    return account_charge(c->account, &c->charged,
                          c->in.frames.in.cap + conn_files_memory(&c->in.files) + outbox_cap(&c->out) + c->live_bytes +
                              c->held.bytes);
}

/* Each arrival of input is one event (EPOLLET): a connection that waits for its turn makes no more of them. EPOLLHUP
 * (the peer closed both ways) always comes. */
void conn_watch(struct conn *c)
{
    uint32_t want = EPOLLET | EPOLLRDHUP;
    if (c->fd < 0) return;
    if (!c->eof) want |= EPOLLIN;
    if (outbox_len(&c->out)) want |= EPOLLOUT;
    if (want == c->watched) return;
    int r = sd_event_source_set_io_events(c->io, want);
    if (r < 0) {
        log_error("connection %llu: %s", (unsigned long long)c->id, strerror(-r));
        conn_drop(c);
        return;
    }
    c->watched = want;
}

void conn_end_input(struct conn *c)
{
    c->eof = true;
    frame_decoder_fini(&c->in.frames);
    conn_files_fini(&c->in.files);
}

static void pause_or_resume(struct conn *c)
{
    const struct conn_limits *l = c->shared->limits;
    size_t waiting = outbox_len(&c->out);
    bool pause = c->paused ? waiting > l->low : waiting > l->high;
    if (pause == c->paused) return;
    c->paused = pause;
    if (!pause) conns_queue(c); /* input may be in the decoder or in the socket */
    c->shared->ops->pause(c->shared->ctx, c, pause);
}

void conn_settle(struct conn *c)
{
    if (c->fd >= 0 && c->eof && c->n_live == 0 && outbox_len(&c->out) == 0) conn_drop(c);
    if (c->fd >= 0 || c->n_live || c->finished) return;
    c->finished = true;
    c->shared->ops->finished(c->shared->ctx, c);
}

void conn_flush(struct conn *c)
{
    if (c->fd < 0) return;
    int r = c->blocked ? 1 : outbox_flush(&c->out, c->fd);
    c->blocked = r > 0;
    if (r < 0) {
        log_debug("connection %llu: %s", (unsigned long long)c->id, strerror(-r));
        conn_drop(c);
        return;
    }
    conn_charge(c); /* a smaller charge never fails */
    pause_or_resume(c);
    conn_watch(c);
    conn_settle(c);
}

/* The peer has ended, as usual, and close(2) has no messages to free. */
static bool is_drained(struct conn *c)
{
    char piece[4096];
    bool partial;
    return c->in.drained || conn_files_receive(&c->in.files, c->fd, piece, sizeof(piece), &partial) == 0;
}

/* Messages that were not read may have descriptors, of which close(2) may wait. */
static void close_socket(struct conn *c)
{
    if (is_drained(c))
        close(c->fd);
    else
        close_apart_socket(c->fd, c->in.files.uid);
    c->fd = -1;
}

void conn_drop(struct conn *c)
{
    if (c->fd < 0) return;
    fairq_remove(&c->shared->queue, &c->entry);
    conn_forget_held(c);
    c->io = sd_event_source_disable_unref(c->io);
    close_socket(c);
    conn_end_input(c);
    outbox_fini(&c->out);
    conn_charge(c);
    /* A paused sequence would never end. */
    if (c->paused) {
        c->paused = false;
        c->shared->ops->pause(c->shared->ctx, c, false);
    }
    for (size_t i = c->n_live; i > 0; i--) c->shared->ops->abandon(c->shared->ctx, c, c->live[i - 1].id);
    conn_settle(c);
}

void conn_finish(struct conn *c)
{
    if (c->fd < 0) return;
    conn_end_input(c);
    conn_charge(c);
    conn_watch(c);
    conn_settle(c);
}

/* A part of an answer, of which there may be any number. */
static bool is_piece(const struct proto_event *e)
{
    return e->type == PROTO_EV_TEXT || e->type == PROTO_EV_TOOL_CALL || e->type == PROTO_EV_WARNING;
}

/* Send an error in place of @e, which is too large. A text is not the last event of its request. */
static void replace(struct conn *c, const struct proto_event *e, const char *why)
{
    const struct proto_event error = {.type = PROTO_EV_ERROR,
                                      .id = e->id,
                                      .index = e->index,
                                      .more = e->more || is_piece(e),
                                      .code = EMSGSIZE,
                                      .message = {(char *)why, strlen(why)}};
    conn_send(c, &error);
}

void conn_send(struct conn *c, const struct proto_event *e)
{
    size_t before = outbox_len(&c->out);
    if (c->fd < 0) return;
    if (before > c->shared->limits->hard && is_piece(e)) {
        log_warning("connection %llu of uid %lu: the client has not read %zu bytes; connection closed",
                    (unsigned long long)c->id, (unsigned long)conn_uid(c), before);
        conn_drop(c);
        return;
    }
    int r = outbox_add(&c->out, e);
    if (r == -EMSGSIZE && e->type != PROTO_EV_ERROR) {
        replace(c, e, error_text(r));
        return;
    }
    if (r == 0) r = conn_charge(c);
    if (r < 0) {
        /* An answer must not lack a part. */
        log_warning("connection %llu of uid %lu: %s; connection closed", (unsigned long long)c->id,
                    (unsigned long)conn_uid(c), error_text(r));
        conn_drop(c);
        return;
    }
    charge_time(c, (outbox_len(&c->out) - before) / BYTES_PER_USEC);
    if (!c->unsent) {
        c->unsent = true;
        c->next_unsent = c->shared->unsent;
        c->shared->unsent = c;
    }
    if (outbox_len(&c->out) > c->shared->limits->high) conn_flush(c); /* it may have to pause */
}

void conn_send_error(struct conn *c, uint64_t id, int code, const char *message)
{
    struct proto_event e = {
        .type = PROTO_EV_ERROR, .id = id, .code = code, .message = {(char *)message, strlen(message)}};
    conn_send(c, &e);
}

static int on_io(sd_event_source *s, int fd, uint32_t events, void *ctx)
{
    struct conn *c = ctx;
    if (events & (EPOLLHUP | EPOLLERR)) {
        conn_drop(c);
        return 0;
    }
    if (events & EPOLLOUT) {
        c->blocked = false;
        conn_flush(c);
    }
    if (events & EPOLLRDHUP) c->shut = true;
    if (!(events & (EPOLLIN | EPOLLRDHUP)) || c->eof) return 0;
    charge_time(c, EVENT_USEC);
    c->readable = true;
    if (!c->paused) conns_queue(c);
    return 0;
}

int conn_new(struct conn **out, struct conns *s, int fd, uint64_t id, struct account *a)
{
    struct conn *c = calloc(1, sizeof *c);
    if (!c) {
        close_apart_socket(fd, account_uid(a));
        account_close(a);
        return error_origin(-ENOMEM);
    }
    *c = (struct conn){.shared = s,
                       .fd = fd,
                       .id = id,
                       .account = a,
                       .watched = EPOLLIN | EPOLLRDHUP | EPOLLET,
                       .in = {.frames.max = s->limits->frame, .files.uid = account_uid(a)}};
    int r = sd_event_add_io(s->event, &c->io, fd, c->watched, on_io, c);
    if (r < 0) {
        conn_free(c);
        return error_origin(r);
    }
    *out = c;
    return 0;
}

static void leave_unsent(struct conn *c)
{
    struct conn **at = &c->shared->unsent;
    if (!c->unsent) return;
    while (*at != c) at = &(*at)->next_unsent;
    *at = c->next_unsent;
}

struct conn *conn_free(struct conn *c)
{
    if (!c) return NULL;
    fairq_remove(&c->shared->queue, &c->entry);
    conn_forget_held(c);
    for (size_t i = 0; i < c->n_live; i++) account_jobs(c->account)->live -= c->live[i].job;
    if (c->n_live) fairq_live(&c->shared->queue, account_queue(c->account), -(int)c->n_live);
    leave_unsent(c);
    sd_event_source_disable_unref(c->io);
    if (c->fd >= 0) close_socket(c);
    conn_end_input(c);
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
    return account_uid(c->account);
}

int conn_move(struct conn *c, uid_t number, const char *name)
{
    bool queued = c->entry.user;
    fairq_remove(&c->shared->queue, &c->entry);
    account_charge(c->account, &c->charged, 0);
    int r = account_move(&c->account, number, name, clock_now_usec());
    int charged = conn_charge(c);
    charge_time(c, CONN_ACCEPT_USEC);
    if (queued) conns_queue(c);
    return r < 0 ? r : charged;
}

bool conn_paused(const struct conn *c)
{
    return c->paused;
}

bool conn_is_closed(const struct conn *c)
{
    return c->fd < 0;
}

bool conn_flushed(const struct conn *c)
{
    return outbox_len(&c->out) == 0;
}

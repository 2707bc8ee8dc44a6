/* SPDX-License-Identifier: MIT */
/* A connection's input: bytes become messages, and wrong ones are answered with an error. */
#include "daemon/io/conn-state.h"
#include "daemon/io/conn.h"
#include "daemon/io/conns.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdio.h>
#include <stdlib.h>

enum {
    READ_CHUNK = 64 << 10,
    REST_ROUNDS = 1000, /* held requests that are handled when the daemon stops */
};

/* The peer broke the protocol: send it an error and read no more. */
static void refuse(struct conn *c, int code, const char *message)
{
    log_debug("connection %llu of uid %lu: %s", (unsigned long long)c->id, (unsigned long)conn_uid(c), message);
    account_counts(c->account)->errors++;
    conn_end_input(c);
    conn_send_error(c, 0, code, message);
    conn_finish(c);
}

static void greet(struct conn *c, int r, const struct proto_request *req)
{
    const struct proto_event hello = {.type = PROTO_EV_HELLO, .id = req->id, .version = PROTO_VERSION};
    char text[160];
    if (r == -EPROTO) {
        snprintf(text, sizeof text, "the daemon supports protocol version %d, not %lu", PROTO_VERSION,
                 (unsigned long)req->version);
        refuse(c, EPROTO, text);
    } else if (r == -EBADMSG || r == -ENOMEM) {
        refuse(c, -r, error_text(r));
    } else if (r < 0 && req->type == PROTO_HELLO) {
        refuse(c, EPROTO, error_text(r));
    } else if (r < 0 || req->type != PROTO_HELLO) {
        refuse(c, EPROTO, "the first message must be hello");
    } else if (req->user.len && (r = c->shared->ops->user(c->shared->ctx, c, &req->user)) < 0) {
        refuse(c, -r, error_text(r));
    } else {
        c->greeted = true;
        conn_send(c, &hello);
    }
}

/* A message is wrong, but its end is known: the connection continues with the next one. */
static void complain(struct conn *c, uint64_t id, int code, const char *message)
{
    if (++c->errors <= c->shared->limits->errors) {
        account_counts(c->account)->errors++;
        conn_send_error(c, id, code, message);
        return;
    }
    char text[96];
    snprintf(text, sizeof text, "more than %zu messages were invalid; the connection ends", c->shared->limits->errors);
    refuse(c, EPROTO, text);
}

/* --- requests that are held while their user has too many jobs --- */

bool conn_is_job(enum proto_type t)
{
    return t == PROTO_TOKENIZE || t == PROTO_DETOKENIZE || (t >= PROTO_SESSION_LIST && t <= PROTO_SESSION_REMOVE);
}

/* Hold @req behind the held requests of the user's other connections. Takes its memory. */
static void hold(struct conn *c, struct proto_request *req)
{
    struct account_jobs *jobs = account_jobs(c->account);
    c->held = *req;
    *req = (struct proto_request){0};
    if (conn_charge(c) < 0) {
        conn_send_error(c, c->held.id, EDQUOT, error_text(-EDQUOT));
        proto_request_fini(&c->held);
        return;
    }
    c->in_held = true;
    c->next_held = NULL;
    if (jobs->last)
        jobs->last->next_held = c;
    else
        jobs->first = c;
    jobs->last = c;
}

static void handle(struct conn *c, struct proto_request *req, bool now)
{
    if (!now && conn_is_job(req->type) && account_jobs(c->account)->live >= c->shared->limits->jobs)
        hold(c, req);
    else
        c->shared->ops->request(c->shared->ctx, c, req);
}

/* Handle the held request if its turn has come, or in any case with @now. False: it is still held. */
static bool handle_held(struct conn *c, bool now)
{
    struct proto_request req = c->held;
    if (!req.type) return true;
    if (c->in_held && !now) return false;
    c->held = (struct proto_request){0};
    conn_forget_held(c);
    handle(c, &req, now);
    proto_request_fini(&req);
    return !c->held.type;
}

/* Parse the next body, and pop it. As proto_read_request. */
static int read_body(struct conn *c, const char *body, size_t len, struct proto_request *req)
{
    char *memory;
    int r;
    if (len < PROTO_TAKE_MIN || frame_take(&c->in.frames, &memory, &body) < 0) {
        r = proto_read_request(req, body, len);
        frame_pop(&c->in.frames);
        return r;
    }
    r = proto_take_request(req, &memory, body, len);
    free(memory);
    return r;
}

/* The same, with the files of the message; -EBADF and those of blob_map are also possible. */
static int read_message(struct conn *c, const char *body, size_t len, struct proto_request *req)
{
    int r = read_body(c, body, len, req);
    return conn_files_give(&c->in.files, req, r, c->in.frames.in.len - c->in.frames.at);
}

/* One body. */
static void message(struct conn *c, const char *body, size_t len)
{
    struct proto_request req = {0};
    int r = read_message(c, body, len, &req);
    account_counts(c->account)->messages++;
    if (!c->greeted) {
        greet(c, r, &req);
    } else if (r == -EBADMSG || (r == -ENOMEM && !req.id)) { /* an error of id 0 reaches no request */
        refuse(c, -r, error_text(r));
    } else if (r < 0) {
        complain(c, req.id, r == -EPROTO ? EPROTO : -r, error_text(r));
    } else if (req.type == PROTO_HELLO) {
        complain(c, req.id, EINVAL, "hello was already received");
    } else {
        if (c->errors) c->errors--;
        handle(c, &req, false);
    }
    proto_request_fini(&req);
}

/* More messages may be handled: the peer is listened to, its answers are not paused, and no request is held. */
static bool reads(const struct conn *c)
{
    return !c->eof && !c->paused && !c->held.type;
}

/* Handle whole messages, *left at most. True: another one is complete. Each may end the connection, or fill its
 * output. */
static bool messages(struct conn *c, size_t *left)
{
    int r = 0;
    const char *body;
    size_t len;
    while (reads(c) && (r = frame_peek(&c->in.frames, &body, &len)) == 1) {
        if (*left == 0) return true;
        --*left;
        message(c, body, len);
    }
    if (r < 0 && !c->eof) refuse(c, -r, error_text(r));
    return false;
}

/* Take up to READ_CHUNK bytes from the socket. Returns how many. */
static size_t take(struct conn *c)
{
    char piece[READ_CHUNK];
    bool partial;
    ssize_t n = conn_files_receive(&c->in.files, c->fd, piece, sizeof piece, &partial);
    if (n == -EINTR) return 0;
    /* After another short read the socket is empty or at its end: later input is a new event. */
    c->readable = n == sizeof piece || partial || (n > 0 && c->shut);
    if (n == -EAGAIN) return 0;
    c->in.drained = n == 0;
    if (n == -EPROTO || n == -EBUSY || n == -ENOMEM) {
        refuse(c, (int)-n, error_text((int)n));
        return 0;
    }
    if (n < 0) {
        conn_drop(c);
        return 0;
    }
    if (n == 0) {
        /* Only its writing side is shut, or EPOLLHUP would have come: its requests are still answered. */
        conn_end_input(c);
        conn_charge(c);
        return 0;
    }
    int r = frame_feed(&c->in.frames, piece, (size_t)n);
    if (r == 0) r = conn_charge(c);
    if (r < 0 && r != -EMSGSIZE)
        refuse(c, -r, error_text(r)); /* messages() reports a wrong length, after the good messages */
    return (size_t)n;
}

static bool read_on(struct conn *c, size_t left, size_t bytes)
{
    bool more = messages(c, &left); /* read in the last turn */
    size_t n = 0;
    while (!more && n < bytes && c->readable && reads(c)) {
        n += take(c);
        more = messages(c, &left);
    }
    if (c->fd < 0) return false;
    conn_charge(c);
    conn_watch(c);
    conn_settle(c);
    return reads(c) && (more || c->readable);
}

bool conn_read(struct conn *c, size_t messages, size_t bytes)
{
    error_forget();
    return handle_held(c, false) && read_on(c, messages, bytes);
}

void conn_read_rest(struct conn *c, size_t bytes)
{
    if (c->fd < 0) return;
    c->readable = true; /* perhaps: an event may be on its way */
    for (int i = 0; i < REST_ROUNDS; i++) {
        handle_held(c, true);
        read_on(c, SIZE_MAX, bytes);
        if (!c->held.type) break;
    }
}

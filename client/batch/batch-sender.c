/* SPDX-License-Identifier: MIT */
#include "client/batch/batch-sender.h"
#include "client/interrupt.h"
#include "libcommon/error.h"
#include <string.h>
#include <sys/socket.h>

#define SENDER_OUT_MOST    (1u << 20) /* bytes of frames that wait for the socket */
#define SENDER_PAUSE_LEAST 50         /* ms; doubles until the next answer */
#define SENDER_PAUSE_MOST  2000
#define SENDER_LOST_MOST   10  /* connections without an answer */
#define SENDER_SUSPECT_MS  300 /* a daemon that cannot serve closes the connection right after its error */
#define SENDER_ALONE_MOST  5   /* refusals for a lack of memory of a job that is alone */

int batch_sender_init(struct batch_sender *s, const struct options *o, unsigned most)
{
    *s = (struct batch_sender){.options = o, .connection = CONNECTION_INIT, .most = most, .limit = most};
    return endpoints_find(&s->endpoints, o);
}

void batch_sender_fini(struct batch_sender *s)
{
    connection_close(&s->connection);
    endpoints_fini(&s->endpoints);
    buf_fini(&s->out);
}

static void pause_sending(struct batch_sender *s)
{
    s->pause.ms = s->pause.ms ? 2 * s->pause.ms : SENDER_PAUSE_LEAST;
    if (s->pause.ms > SENDER_PAUSE_MOST) s->pause.ms = SENDER_PAUSE_MOST;
    s->pause.until = interrupt_now() + s->pause.ms;
}

static bool is_paused(const struct batch_sender *s)
{
    return s->pause.until > interrupt_now();
}

/* --- the connection --- */

/* One more attempt has failed. */
static int lose(struct batch_sender *s)
{
    if (++s->daemon.lost >= SENDER_LOST_MOST) return -ENOTCONN;
    pause_sending(s);
    return 0;
}

int batch_sender_connect(struct batch_sender *s)
{
    if (s->connection.fd >= 0 || is_paused(s)) return 0;
    int r = endpoints_connect_or_start(&s->endpoints);
    if (r == -EINTR || r == -ENOMEM || (r == -ENOEXEC && !s->met)) return r;
    /* A daemon that has ended may be on its way back, but one that never ran is not. */
    if (r < 0) return !s->met || lose(s) < 0 ? error_say(-ENOTCONN, "%s", error_text(r)) : 0;
    connection_open(&s->connection, r);
    s->met = true;
    s->daemon.proven = false;
    buf_clear(&s->out);
    s->out_at = 0;
    r = connection_hello(&s->out, NULL);
    return r < 0 ? error_say(r, "no memory for a request") : 0;
}

static void settle_suspect(struct batch_sender *s)
{
    s->daemon.suspect = NULL;
}

/* The connection has ended: its jobs wait again. */
static int disconnect(struct batch_sender *s)
{
    struct batch_job *suspect = s->daemon.suspect;
    connection_close(&s->connection);
    s->connection = (struct connection)CONNECTION_INIT;
    buf_clear(&s->out);
    s->out_at = 0;
    settle_suspect(s);
    if (suspect && !s->daemon.proven)
        return error_say(-ENOEXEC, "%s", suspect->message.len ? suspect->message.data : strerror(s->daemon.code));
    for (unsigned i = 0; i < BATCH_JOBS_MAX; i++) {
        if (s->sent[i]) batch_job_again(s->sent[i]);
        s->sent[i] = NULL;
    }
    s->n_sent = 0;
    return lose(s) < 0 ? error_say(-ENOTCONN, "the daemon ended %d times without an answer", SENDER_LOST_MOST) : 0;
}

/* --- sending --- */

static int send_job(struct batch_sender *s, struct batch_job *j)
{
    if (s->sent[j->request_id % BATCH_JOBS_MAX]) return 0; /* an earlier job has its place: it waits for that */
    int r = buf_append(&s->out, j->frame.data, j->frame.len);
    if (r < 0) return r;
    s->sent[j->request_id % BATCH_JOBS_MAX] = j;
    s->n_sent++;
    j->state = BATCH_SENT;
    return 0;
}

int batch_sender_fill(struct batch_sender *s, const struct batch_queue *q)
{
    int r = 0;
    if (s->connection.fd < 0 || is_paused(s)) return 0;
    s->pause.until = 0;
    for (struct batch_job *j = q->first; r == 0 && j; j = j->next) {
        if (s->n_sent >= s->limit || s->out.len - s->out_at > SENDER_OUT_MOST) break;
        if (j->state == BATCH_WAITING) r = send_job(s, j);
    }
    return r < 0 ? error_say(r, "no memory for a request") : 0;
}

/* 0; CONNECTION_CLOSED; else -errno. */
static int flush(struct batch_sender *s)
{
    while (s->out_at < s->out.len) {
        ssize_t n =
            send(s->connection.fd, s->out.data + s->out_at, s->out.len - s->out_at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) return CONNECTION_CLOSED;
        if (n < 0) {
            int r = error_origin(-errno);
            return error_in(r, "cannot send a request");
        }
        s->out_at += (size_t)n;
    }
    buf_clear(&s->out);
    s->out_at = 0;
    return 0;
}

/* --- answers --- */

static void release(struct batch_sender *s, struct batch_job *j)
{
    s->sent[j->request_id % BATCH_JOBS_MAX] = NULL;
    s->n_sent--;
}

/* The daemon has no room for @j now. False: it never will. */
static bool refused(struct batch_sender *s, struct batch_job *j, const struct proto_event *e)
{
    bool waits = e->code == EBUSY || e->code == ESHUTDOWN || (e->code == ETIMEDOUT && j->patient);
    if (e->code == EDQUOT || e->code == ENOMEM) waits = s->n_sent > 1 || j->refused++ < SENDER_ALONE_MOST;
    if (!waits) return false;
    release(s, j);
    batch_job_again(j);
    s->limit = s->n_sent > 0 ? s->n_sent : 1;
    pause_sending(s);
    return true;
}

/* @j has its answer: the daemon has room for another one, and perhaps one more. */
static void answered(struct batch_sender *s, struct batch_job *j)
{
    release(s, j);
    if (s->limit < s->most) s->limit++;
    s->pause.until = s->pause.ms = 0;
    s->daemon.lost = 0;
}

/* The first error of a connection may say that the daemon cannot serve at all; then it closes the connection. */
static void suspect(struct batch_sender *s, struct batch_job *j, const struct proto_event *e)
{
    s->daemon.suspect = j;
    s->daemon.suspect_until = interrupt_now() + SENDER_SUSPECT_MS;
    s->daemon.code = e->code;
}

static int job_event(struct batch_sender *s, struct batch_job *j, struct proto_event *e)
{
    bool error = e->type == PROTO_EV_ERROR;
    int code = e->code;
    if (error && refused(s, j, e)) return 0;
    if (error && code == EIO && !s->daemon.proven) /* its model could not be loaded: it says so to each request */
        return error_say(-ENOEXEC, "%s", e->message.len ? e->message.data : strerror(code));
    s->tokens += e->type == PROTO_EV_TEXT;
    int r = batch_job_event(j, e);
    if (r < 0) return r == -ENOMEM ? error_say(r, "no memory for an answer") : r;
    if (j->state < BATCH_ANSWERED) return 0;
    answered(s, j);
    if (error && !s->daemon.proven && !s->daemon.suspect) suspect(s, j, &(struct proto_event){.code = code});
    return 0;
}

/* 0; CONNECTION_CLOSED: the connection is of no more use; -ENOEXEC: the daemon can serve nobody. */
static int connection_error(const struct batch_sender *s, const struct proto_event *e)
{
    if (s->daemon.proven || e->code == EBUSY || e->code == EDQUOT || e->code == ESHUTDOWN) return CONNECTION_CLOSED;
    return error_say(-ENOEXEC, "%s", e->message.len ? e->message.data : strerror(e->code));
}

static int on_event(struct batch_sender *s, struct proto_event *e)
{
    struct batch_job *j = s->sent[e->id % BATCH_JOBS_MAX];
    if (e->type == PROTO_EV_ERROR && e->id == 0) return connection_error(s, e);
    if (e->type != PROTO_EV_ERROR) s->daemon.proven = true;
    if (s->daemon.suspect) settle_suspect(s); /* the connection has more to say */
    return e->id && j && j->request_id == e->id ? job_event(s, j, e) : 0;
}

static int receive(struct batch_sender *s)
{
    for (;;) {
        struct proto_event e;
        int r = connection_next(&s->connection, &e, interrupt_now(), -1);
        if (r == -ETIMEDOUT) return 0;
        if (r != 0) return r;
        r = on_event(s, &e);
        proto_event_fini(&e);
        if (r != 0) return r;
    }
}

int batch_sender_turn(struct batch_sender *s)
{
    if (s->connection.fd < 0) return 0;
    int r = flush(s);
    if (r >= 0) { /* what the daemon said before it closed the connection counts */
        int closed = r;
        r = receive(s);
        if (r == 0) r = closed;
    }
    if (r == CONNECTION_CLOSED) return disconnect(s);
    if (s->daemon.suspect && interrupt_now() >= s->daemon.suspect_until) settle_suspect(s);
    return r;
}

struct pollfd batch_sender_poll(const struct batch_sender *s)
{
    const short out = s->out_at < s->out.len ? POLLOUT : 0;
    return (struct pollfd){.fd = s->connection.fd, .events = (short)(POLLIN | out)};
}

int64_t batch_sender_deadline(const struct batch_sender *s)
{
    if (s->daemon.suspect) return s->daemon.suspect_until;
    /* Also if it has just passed: the jobs that waited for it are not sent yet. */
    return s->pause.until ? s->pause.until : -1;
}

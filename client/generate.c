/* SPDX-License-Identifier: MIT */
#include "client/generate.h"
#include "client/answer.h"
#include "client/choices.h"
#include "client/connection.h"
#include "client/endpoints.h"
#include "client/exit-status.h"
#include "client/input.h"
#include "client/interrupt.h"
#include "client/log/log-record.h"
#include "client/log/resume.h"
#include "client/templates/templates.h"
#include "client/tool-loop.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GENERATE_TRIES 4
#define GENERATE_GRACE_MS                                                                                              \
    2000 /* extra time after the request's timeout, which the daemon enforces, until the client gives up */
#define GENERATE_BYE_MS 1000 /* maximum wait of --jsonl for the end of a request that it canceled */

struct message {
    const struct proto_request *request;
    struct buf frames;    /* hello and the request */
    struct proto_fds fds; /* that go with them */
    uint32_t needs;       /* enum proto_feature */
};

static bool has_media(const struct proto_generate *g)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n_messages; i++) n += g->messages[i].n_media;
    return n;
}

/* The features of a daemon that can read @request. */
static uint32_t features_of(const struct proto_request *request)
{
    const struct proto_thinking *thinking = &request->thinking;
    return (request->constraint.type ? PROTO_FEATURE_CONSTRAINT : 0u) |
           (thinking->mode || thinking->limited ? PROTO_FEATURE_THINKING : 0u) |
           (request->tools.list.len ? PROTO_FEATURE_TOOLS : 0u) | (has_media(&request->gen) ? PROTO_FEATURE_MEDIA : 0u);
}

static int message_init(struct message *m, const struct proto_request *request)
{
    *m = (struct message){.request = request, .frames = BUF_INIT, .needs = features_of(request)};
    int r = connection_hello(&m->frames, NULL);
    return r == 0 ? proto_write_request_fds(&m->frames, &m->fds, request) : r;
}

static void message_fini(struct message *m)
{
    buf_fini(&m->frames);
    proto_fds_fini(&m->fds);
}

/* The descriptors did not reach the daemon: between it and hob is a forwarder of bytes, such as ssh. Put the files into
 * the request. */
static int message_inline(struct message *m)
{
    proto_fds_fini(&m->fds);
    buf_clear(&m->frames);
    int r = connection_hello(&m->frames, NULL);
    return r == 0 ? proto_write_request(&m->frames, m->request) : r;
}

/* Handle one event. 1: the answer has ended. */
static int generate_step(struct choices *s, struct connection *c, int64_t deadline)
{
    struct answer *a = s->answer;
    struct proto_event e;
    int r = connection_next(c, &e, deadline, a->out->watch ? a->out->fd : -1);
    if (r == CONNECTION_CLOSED) {
        if (!a->begun) return -ECONNRESET;
        return answer_fail(a, error_say(-ESHUTDOWN, "the daemon closed the connection before the answer was complete"),
                           EXIT_NO_DAEMON);
    }
    if (r == -ETIMEDOUT) return answer_fail(a, r, exit_status_of_event(ETIMEDOUT, a->spoke));
    if (r == -EINTR || r == -EPIPE) return r;
    if (r < 0) return answer_fail(a, r, r == -EOPNOTSUPP ? EXIT_USAGE : EXIT_FAILED);
    if (e.type == PROTO_EV_ERROR && e.code == ESHUTDOWN && !a->begun)
        r = -ECONNRESET; /* the daemon is stopping; the next one can serve the request */
    else if (e.type == PROTO_EV_ERROR && e.code == EBADF && !a->begun && c->sent_fds)
        r = -EREMOTEIO;
    /* An error without an id concerns the connection, which has only this request. */
    else if (e.id == GENERATE_ID || (e.type == PROTO_EV_ERROR && e.id == 0)) {
        record_event(a->opt->log.record, &e);
        r = choices_event(s, &e);
    }
    proto_event_fini(&e);
    return r;
}

/* On SIGINT: cancel the request. With --jsonl wait briefly for its last line. A second SIGINT kills hob. */
static int generate_cancel(struct choices *s, struct connection *c)
{
    struct answer *a = s->answer;
    struct proto_request cancel = {.type = PROTO_CANCEL, .id = GENERATE_ID};
    struct buf frame = BUF_INIT;
    int64_t deadline = interrupt_now() + GENERATE_BYE_MS;
    if (proto_write_request(&frame, &cancel) == 0) connection_send_now(c, &frame);
    buf_fini(&frame);
    interrupt_clear();
    int r = answer_interrupt(a);
    while (r == 0 && a->opt->jsonl) {
        struct proto_event e;
        r = connection_next(c, &e, deadline, -1);
        if (r != 0) break;
        if (e.id == GENERATE_ID) record_event(a->opt->log.record, &e);
        if (e.id == GENERATE_ID) r = choices_event(s, &e);
        proto_event_fini(&e);
    }
    if (a->opt->jsonl) output_release(a->out);
    a->status = EXIT_INTERRUPTED;
    return 1;
}

/* One attempt over one connection. 1: the answer ended; -ECONNRESET: may be retried; -EREMOTEIO: … without
 * descriptors; other negative values as for exit_status_of_error. */
static int generate_try(struct choices *s, const struct endpoints *p, const struct message *m, int64_t deadline)
{
    struct answer *a = s->answer;
    struct connection c = CONNECTION_INIT;
    int r = endpoints_connect_or_start(p);
    if (r == -EINTR || r == -ENOMEM) return r;
    if (r < 0) return answer_fail(a, r, exit_status_of_connect(r));
    connection_open(&c, r);
    c.needs = m->needs;
    interrupt_block();
    r = connection_send(&c, &m->frames, &m->fds, deadline);
    bool sent = r == 0;
    if (r == CONNECTION_CLOSED) r = 0; /* a daemon that closes the connection may have sent an error first */
    if (r < 0 && r != -EINTR && r != -EREMOTEIO) r = answer_fail(a, r, r == -ETIMEDOUT ? EXIT_BUSY : EXIT_FAILED);
    while (r == 0) r = generate_step(s, &c, deadline);
    if (r == -EINTR && sent) r = generate_cancel(s, &c);
    connection_close(&c);
    interrupt_unblock();
    return r;
}

static int generate_tries(struct choices *s, const struct endpoints *p, struct message *m)
{
    static const int pause_ms[GENERATE_TRIES] = {0, 0, 50, 250};
    struct answer *a = s->answer;
    const struct options *o = a->opt;
    int64_t deadline =
        o->timeout_ms > 0 && o->timeout_ms < INT64_MAX / 2 ? interrupt_now() + o->timeout_ms + GENERATE_GRACE_MS : -1;
    int i, r = 0;

    for (i = 0; i < GENERATE_TRIES; i++) {
        if (pause_ms[i] > 0) r = interrupt_sleep(pause_ms[i]);
        if (r >= 0) r = generate_try(s, p, m, deadline);
        if (r != -ECONNRESET && r != -EREMOTEIO) return r;
        r = r == -EREMOTEIO ? message_inline(m) : 0;
        if (r < 0) return r;
    }
    return answer_fail(a, error_say(-ESHUTDOWN, "the daemon closed the connection without an answer; try again"),
                       EXIT_NO_DAEMON);
}

/* Send the prepared message, and print the answer to @fd (-1: nowhere). @said receives what arrived; NULL: it does not.
 */
static int generate_send(const struct options *o, struct message *m, int fd, struct answer_parts *said)
{
    struct output out;
    struct endpoints endpoints;
    struct answer a;
    struct choices s;
    int r = endpoints_find(&endpoints, o);
    output_init(&out, fd, o->no_stream);
    answer_init(&a, o, &out);
    a.keep = said != NULL;
    if (r == 0) r = choices_init(&s, &a);
    if (r == 0) {
        r = generate_tries(&s, &endpoints, m);
        choices_fini(&s);
    }
    if (said) {
        *said = a.parts;
        a.parts = (struct answer_parts){0};
    }
    int status = a.status;
    answer_fini(&a);
    if (r <= 0) status = exit_status_report(r);
    output_fini(&out);
    endpoints_fini(&endpoints);
    return status;
}

/* The request continues an exchange of the log, whose model answers. */
static int run_resumed(const struct options *given, struct proto_request *q)
{
    struct options o = *given;
    o.model = given->model ? strdup(given->model) : NULL;
    int r = given->model && !o.model ? -ENOMEM : resume_request(&o, q);
    if (r < 0)
        r = exit_status_before(r);
    else
        r = o.tools.n_paths ? tool_loop_once(&o, q) : generate_turn(&o, q, NULL);
    free(o.model);
    return r;
}

int generate_run(const struct options *o, int stdin_fd)
{
    struct input input = {0};
    struct proto_request request = {0};
    for (size_t i = 0; i < o->n_files; i++)
        if (o->files[i].kind && strcmp(o->files[i].path, "-") == 0) stdin_fd = -1; /* it is no text */
    int r = o->template.name ? template_input(o, stdin_fd, &input) : input_read(o, stdin_fd, &input);
    if (r > 0) {
        log_error("empty prompt: give words, a file or standard input (see hob --help)");
        input_fini(&input);
        return EXIT_USAGE;
    }
    if (r == 0) r = generate_request(&request, o, &input);
    input_fini(&input);
    if (r < 0)
        r = exit_status_before(r);
    else if (o->log.from)
        r = run_resumed(o, &request);
    else
        r = o->tools.n_paths ? tool_loop_once(o, &request) : generate_turn(o, &request, NULL);
    proto_request_fini(&request);
    return r;
}

static int generate_to(const struct options *o, const struct proto_request *request, int fd, struct answer_parts *said)
{
    struct message m;
    int r = message_init(&m, request);
    record_open(o->log.record, request);
    r = r < 0 ? exit_status_report(r) : generate_send(o, &m, fd, said);
    record_close(o->log.record, o, request, r);
    message_fini(&m);
    return r;
}

int generate_turn(const struct options *o, const struct proto_request *request, struct answer_parts *said)
{
    return generate_to(o, request, STDOUT_FILENO, said);
}

int generate_silent(const struct options *o, const struct proto_request *request, struct answer_parts *said)
{
    return generate_to(o, request, -1, said);
}

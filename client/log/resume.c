/* SPDX-License-Identifier: MIT */
#include "client/log/resume.h"
#include "client/child.h"
#include "client/endpoints.h"
#include "client/log/earlier.h"
#include "client/log/log-files.h"
#include "client/option-check.h"
#include "client/option-table.h"
#include "client/rpc.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define READ_MS    10000
#define READ_BYTES (256u << 20)
#define SESSION_MS 60000

/* The last line of the standard error of hob-log, without "hob: ". */
static int said(const struct child_result *c)
{
    const char *text = c->err.len ? c->err.data : "";
    if (strncmp(text, "hob: ", 5) == 0) text += 5;
    if (!*text) return error_say(-EIO, "hob-log ended without an answer");
    return error_say(-ENOENT, "%.*s", (int)strcspn(text, "\n"), text);
}

/* Ask hob-log for the conversation. */
static int read_log(struct earlier *e, int64_t id)
{
    static const struct child_limits limits = {.ms = READ_MS, .bytes = READ_BYTES};
    char program[PATH_MAX + 16], number[24];
    struct child_result c = {0};
    int r = log_files_program(program);
    if (r < 0) return r;
    snprintf(number, sizeof(number), "%" PRId64, id);
    char *argv[] = {program, (char *)"log", (char *)"conversation", number, NULL};
    r = child_run(&c, argv, "", 0, &limits);
    if (r == 0 && (c.late || c.cut || !WIFEXITED(c.status) || WEXITSTATUS(c.status) != 0)) r = said(&c);
    if (r == 0 && (r = earlier_read(e, c.out.data, c.out.len)) == -EBADMSG) error_in(r, "hob-log");
    child_result_fini(&c);
    return r;
}

/* A daemon that has exited starts again, as for a prompt. 0, or the errors of endpoints_connect_or_start. */
static int wake(const struct options *o)
{
    struct endpoints endpoints;
    int r = endpoints_find(&endpoints, o);
    if (r == 0) r = endpoints_connect_or_start(&endpoints);
    if (r >= 0) close(r);
    endpoints_fini(&endpoints);
    return r < 0 ? r : 0;
}

/* Ask the daemon for the session. 0; 1: it has none of this name, and the error is printed; -errno. */
static int read_session(struct earlier *e, const struct options *o, const struct proto_text *name)
{
    static const struct rpc how = {.want = PROTO_EV_SESSIONS, .retry = RPC_ALWAYS, .wait_ms = SESSION_MS};
    const struct proto_request q = {.type = PROTO_SESSION_SHOW, .id = 1, .name = *name};
    struct connection c = CONNECTION_INIT;
    struct proto_event answer = {0};
    int r = wake(o);
    if (r < 0) return r;
    r = 1;
    if (rpc_call(o, &c, &q, &how, &answer) == 0) r = earlier_read(e, answer.sessions.data, answer.sessions.len);
    proto_event_fini(&answer);
    connection_close(&c);
    return r;
}

static bool same_text(const struct proto_text *a, const struct proto_text *b)
{
    return a->len == b->len && (!a->len || memcmp(a->data, b->data, a->len) == 0);
}

/* The number of messages of @session up to the own messages of @log; 0: it does not have them. */
static size_t find_turn(const struct earlier *session, const struct earlier *log)
{
    for (size_t end = session->n; log->own && end >= log->own; end--) {
        size_t i = 0;
        const struct proto_message *a = &session->messages[end - log->own], *b = &log->messages[log->n - log->own];
        while (i < log->own && same_text(&a[i].role, &b[i].role) && same_text(&a[i].content, &b[i].content)) i++;
        if (i == log->own) return end;
    }
    return 0;
}

static void take_text(struct proto_text *to, struct proto_text *from)
{
    proto_text_fini(to);
    *to = *from;
    *from = (struct proto_text){0};
}

/* The exchange belongs to a session. 0: @q continues it; 1: @e has the messages to send; -errno. */
static int from_session(struct earlier *e, const struct options *o, struct proto_request *q)
{
    struct earlier session = {0};
    int r = read_session(&session, o, &e->session);
    if (r == 0 && *e->uuid && strcmp(session.outcome, e->uuid) == 0) {
        take_text(&q->gen.session, &e->session);
        earlier_fini(&session);
        return 0;
    }
    size_t n = r == 0 ? find_turn(&session, e) : 0;
    if (r < 0 || !n) {
        r = r < 0 ? r
                  : error_say(-ENOENT,
                              "the session '%s' no longer has exchange @%" PRId64 "; see 'hob log show %" PRId64 "'",
                              e->session.data, o->log.from, o->log.from);
    } else {
        log_info("the session '%s' has later turns and stays as it is; this continues beside it", e->session.data);
        for (size_t i = 0; i < e->n; i++) proto_message_fini(&e->messages[i]);
        free(e->messages);
        e->messages = session.messages;
        e->n = n;
        e->media = session.media;
        while (session.n > n) proto_message_fini(&session.messages[--session.n]);
        session.messages = NULL;
        session.n = 0;
        r = 1;
    }
    earlier_fini(&session);
    return r;
}

static bool is_system(const struct proto_message *m)
{
    return m->role.len == 6 && memcmp(m->role.data, "system", 6) == 0;
}

/* Put the messages of @e before the new one of @g. The system message is that of @e, unless the command line has one
 * (@system). */
static int put_messages(struct earlier *e, struct proto_generate *g, bool system)
{
    if (!system && g->n_messages > 1 && is_system(&g->messages[0])) { /* that of hob.conf */
        proto_message_fini(&g->messages[0]);
        g->messages[0] = g->messages[--g->n_messages];
    }
    size_t skip = system && e->n && is_system(&e->messages[0]);
    size_t kept = g->n_messages - 1, n = e->n - skip;
    struct proto_message *m = reallocarray(g->messages, g->n_messages + n, sizeof(*m));
    if (!m) return error_say(-ENOMEM, "no memory for the conversation");
    m[kept + n] = m[kept];
    memcpy(m + kept, e->messages + skip, n * sizeof(*m));
    if (skip) proto_message_fini(&e->messages[0]);
    g->messages = m;
    g->n_messages += n;
    e->n = 0; /* the request owns them */
    return 0;
}

static int put_text(struct earlier *e, struct proto_generate *g)
{
    struct buf text = BUF_INIT;
    int r = buf_append(&text, e->text.data, e->text.len);
    if (r == 0) r = buf_append(&text, g->prompt.data, g->prompt.len);
    proto_text_fini(&g->prompt);
    g->prompt.data = buf_steal(&text, &g->prompt.len);
    return r < 0 ? error_say(r, "no memory for the text") : 0;
}

/* Whether the options fit the exchange. */
static int check(const struct earlier *e, const struct options *o)
{
    if (e->raw != o->raw)
        return error_say(-EINVAL, "exchange @%" PRId64 " is %s; %s", o->log.from,
                         e->raw ? "raw text" : "a conversation", e->raw ? "add --raw" : "leave out --raw");
    return 0;
}

static int put_earlier(struct earlier *e, const struct options *o, struct proto_request *q)
{
    int r = check(e, o);
    q->gen.continue_last = false;
    if (r == 0 && e->session.len) {
        r = from_session(e, o, q);
        if (r <= 0) {
            if (r == 0) record_follow(o->log.record, e->uuid, e->conversation, 0);
            return r;
        }
    }
    if (r < 0) return r;
    if (e->media)
        return error_say(-EINVAL, "exchange @%" PRId64 " has images or sounds, which the log does not keep",
                         o->log.from);
    bool copied = e->session.len; /* from the session */
    size_t old = e->raw ? e->text.len : e->n - (e->n && is_system(&e->messages[0]));
    r = e->raw ? put_text(e, &q->gen) : put_messages(e, &q->gen, OPTION_GIVEN(o, OPTION_SYSTEM));
    if (r == 0) record_follow(o->log.record, e->uuid, e->conversation, old);
    if (r == 0 && copied) record_whole(o->log.record);
    return r;
}

int resume_request(struct options *o, struct proto_request *q)
{
    struct earlier e = {0};
    int r = read_log(&e, o->log.from);
    if (r == 0 && e.model.len && !OPTION_GIVEN(o, OPTION_MODEL)) {
        free(o->model);
        o->model = strdup(e.model.data);
        if (!o->model) r = error_say(-ENOMEM, "no memory for the options");
    }
    if (r == 0) r = put_earlier(&e, o, q);
    earlier_fini(&e);
    return r;
}

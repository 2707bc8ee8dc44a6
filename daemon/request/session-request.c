/* SPDX-License-Identifier: MIT */
/* Requests about sessions: list, show, rename, fork and remove. */
#include "daemon/request/finish.h"
#include "daemon/request/request-job.h"
#include "daemon/request/session-limits.h"
#include "daemon/request/types.h"
#include "libcommon/blob.h"
#include "libcommon/error.h"
#include "libcommon/json-whole.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_SESSIONS 256  /* of a list, if the request names no limit */
#define FORK_BYTES    8192 /* claimed on disk for the log of a fork */

/* --- as JSON --- */

/* Takes @json. 0 or -ENOMEM. */
static int set_answer(struct request *r, json_t *json)
{
    char *text = json_whole_text(json);
    if (!text) return error_say(-ENOMEM, "no memory for the answer");
    r->end = (struct proto_event){.type = PROTO_EV_SESSIONS, .sessions = {.data = text, .len = strlen(text)}};
    return 0;
}

/* A raw text may be anything: of text that is not UTF-8, every byte above 127 becomes '?'. */
static json_t *json_text(const char *data, size_t len)
{
    json_t *j = json_stringn(data ? data : "", len);
    if (j) return j;
    char *copy = malloc(len + 1);
    if (!copy) return NULL;
    for (size_t i = 0; i < len; i++) copy[i] = (signed char)data[i] < 0 ? '?' : data[i];
    j = json_stringn(copy, len);
    free(copy);
    return j;
}

static void set(json_t *o, const char *key, uint64_t v)
{
    json_whole_set(o, key, json_integer((json_int_t)v));
}

static json_t *describe_page(const struct session_page *p)
{
    json_t *out = json_array();
    for (size_t i = 0; i < p->n; i++) {
        const struct session_info *x = &p->all[i];
        json_t *o = json_object();
        json_whole_set(o, "name", json_text(x->name->data, x->name->len));
        set(o, "used", x->used / 1000000);
        set(o, "messages", x->messages);
        set(o, "tokens", x->ids);
        json_whole_set(o, "raw", json_boolean(x->ids && !x->messages));
        set(o, "bytes", x->disk || x->shared ? x->disk : x->bytes);
        set(o, "shared", x->shared);
        json_whole_set(o, "busy", json_boolean(x->busy));
        json_whole_append(out, o);
    }
    return out;
}

static void set_text(json_t *o, const char *key, const struct proto_text *t)
{
    if (t->len) json_whole_set(o, key, json_text(t->data, t->len));
}

static json_t *describe_media(const struct proto_message *m)
{
    json_t *list = json_array();
    for (size_t i = 0; i < m->n_media; i++) {
        const struct proto_media *x = &m->media[i];
        json_t *o = json_object();
        json_whole_set(o, "kind", json_string(proto_media_name(x->kind)));
        set(o, "at", x->at);
        set(o, "bytes", blob_size(x->file));
        if (x->kind == PROTO_MEDIA_SOUND) set(o, "samples", x->samples);
        if (x->kind == PROTO_MEDIA_IMAGE) set(o, "width", x->width);
        if (x->kind == PROTO_MEDIA_IMAGE) set(o, "height", x->height);
        json_whole_append(list, o);
    }
    return list;
}

static json_t *describe_message(const struct proto_message *m)
{
    json_t *o = json_object(), *calls = json_array();
    json_whole_set(o, "role", json_text(m->role.data, m->role.len));
    json_whole_set(o, "content", json_text(m->content.data, m->content.len));
    set_text(o, "thinking", &m->thinking);
    for (size_t i = 0; i < m->n_calls; i++) {
        json_t *call = json_object();
        set_text(call, "id", &m->calls[i].id);
        set_text(call, "name", &m->calls[i].name);
        set_text(call, "arguments", &m->calls[i].arguments);
        json_whole_append(calls, call);
    }
    if (m->n_calls) json_whole_set(o, "tool_calls", json_incref(calls));
    json_decref(calls);
    if (m->n_media) json_whole_set(o, "media", describe_media(m));
    set_text(o, "tool_call_id", &m->call_id);
    set_text(o, "name", &m->name);
    return o;
}

static json_t *describe_outcome(const struct session_outcome *out)
{
    json_t *o = json_object(), *usage = json_object();
    json_whole_set(o, "uuid", json_string(out->uuid));
    json_whole_set(o, "reason", json_string(proto_reason_name(out->reason)));
    set(usage, "prompt", out->usage_prompt);
    set(usage, "cached", out->usage_cached);
    set(usage, "completion", out->usage_completion);
    if (out->usage_thinking) set(usage, "thinking", out->usage_thinking);
    json_whole_set(o, "usage", usage);
    return o;
}

static json_t *describe(const struct session *x)
{
    static const char *const policies[] = {
        [PROTO_CONTEXT_UNSET] = "refuse",
        [PROTO_CONTEXT_REFUSE] = "refuse",
        [PROTO_CONTEXT_SHIFT] = "shift",
        [PROTO_CONTEXT_ROTATE] = "rotate",
    };
    const struct session_content *c = session_content(x);
    json_t *o = json_object(), *messages = json_array();
    json_whole_set(o, "name", json_text(session_name(x)->data, session_name(x)->len));
    set(o, "used", session_last_use(x) / 1000000);
    json_whole_set(o, "raw", json_boolean(c->raw));
    json_whole_set(o, "context", json_string(policies[c->context]));
    set(o, "tokens", c->n_ids);
    for (size_t i = 0; i < c->n_messages; i++) {
        json_whole_append(messages, describe_message(&c->messages[i]));
    }
    set_text(o, "adapter", &c->adapter);
    set_text(o, "failed", &c->failed);
    set_text(o, "note", &c->note);
    if (c->n_outcomes) json_whole_set(o, "outcome", describe_outcome(&c->outcomes[c->n_outcomes - 1]));
    if (c->raw)
        json_whole_set(o, "text", json_text(c->text.data, c->text.len));
    else
        json_whole_set(o, "messages", json_incref(messages));
    json_decref(messages);
    return o;
}

/* --- beginnings: the session is busy for the request --- */

static int acquire(struct request *r)
{
    const struct proto_text *name = &r->proto.name;
    return session_acquire(r->core->sessions, r->uid, name->data, name->len, false, &r->turn.session);
}

static int begin_list(struct request *r)
{
    const struct proto_request *q = &r->proto;
    return session_page_take(r->core->sessions, r->uid, &q->after, q->limit ? q->limit : PAGE_SESSIONS, &r->page);
}

static int begin_fork(struct request *r)
{
    const struct proto_text *to = &r->proto.to;
    struct request_session *t = &r->turn;
    int result = acquire(r);
    return result < 0 ? result : session_fork(r->core->sessions, t->session, to->data, to->len, &t->target);
}

static int begin_rename(struct request *r)
{
    const struct proto_text *to = &r->proto.to;
    struct request_session *t = &r->turn;
    int result = acquire(r);
    return result < 0 ? result : session_rename(r->core->sessions, t->session, to->data, to->len, &t->target);
}

static int begin_remove(struct request *r)
{
    int result = acquire(r);
    if (result == 0) sessions_set_tail(r->core, r->turn.session, (struct prefix_id){0});
    return result;
}

/* --- jobs --- */

static int list(struct request *r)
{
    int result = set_answer(r, describe_page(&r->page));
    if (result < 0) return result;
    result = proto_text_set(&r->end.next, r->page.next, strlen(r->page.next));
    return result < 0 ? error_say(result, "no memory for the answer") : 0;
}

static int show(struct request *r)
{
    int result = session_load(r->turn.session);
    return result < 0 ? result : set_answer(r, describe(r->turn.session));
}

static int rename_session(struct request *r)
{
    int result = session_load(r->turn.session);
    return result < 0 ? result : session_move(r->turn.target, r->turn.session);
}

static int fork_session(struct request *r)
{
    int result = session_claim(r->turn.target, FORK_BYTES);
    return result < 0 ? result : session_duplicate(r->turn.target, r->turn.session);
}

static int remove_session(struct request *r)
{
    return session_erase(r->turn.session);
}

/* --- ends --- */

/* The job has set the answer. */
static void finish(struct request *r, int result)
{
    if (result < 0)
        answer_fail(r, NULL, result, request_job_error(r));
    else
        request_end(r, NULL);
}

static void finish_ok(struct request *r, int result)
{
    if (result == 0) r->end = (struct proto_event){.type = PROTO_EV_OK};
    finish(r, result);
}

const struct request_type request_session_list = {
    .proto = PROTO_SESSION_LIST, .large = true, .begin = begin_list, .work = list, .finish = finish};
const struct request_type request_session_show = {
    .proto = PROTO_SESSION_SHOW, .large = true, .begin = acquire, .work = show, .finish = finish};
const struct request_type request_session_rename = {
    .proto = PROTO_SESSION_RENAME, .large = true, .begin = begin_rename, .work = rename_session, .finish = finish_ok};
const struct request_type request_session_fork = {
    .proto = PROTO_SESSION_FORK, .large = true, .begin = begin_fork, .work = fork_session, .finish = finish_ok};
const struct request_type request_session_remove = {
    .proto = PROTO_SESSION_REMOVE, .large = true, .begin = begin_remove, .work = remove_session, .finish = finish_ok};

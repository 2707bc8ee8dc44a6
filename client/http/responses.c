/* SPDX-License-Identifier: MIT */
/* POST /v1/responses. */
#include "client/http/responses.h"
#include "client/http/http-routes.h"
#include "client/http/json-body.h"
#include "client/http/model-list.h"
#include "client/http/response-socket.h"
#include "client/http/session-lookup.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/json-whole.h"
#include <stdlib.h>
#include <string.h>

static int no_memory(struct completion *c)
{
    return fault_of_error(&c->exchange->fault, error_origin(-ENOMEM));
}

/* The note of the session: the fields that the response repeats, and the model as the client named it. */
static int set_note(struct completion *c)
{
    json_t *note = json_copy(c->response->echo);
    struct proto_text *t = &c->request.note;
    json_whole_set(note, "model", json_string(completion_model(c)));
    t->data = json_whole_text(note);
    if (!t->data) return no_memory(c);
    t->len = strlen(t->data);
    if (t->len <= PROTO_NOTE_MAX) return 0;
    return fault_set(&c->exchange->fault, 413, "store", "the fields of the request are too long to be stored");
}

/* Send the request. @continues: its messages follow those of the session of the previous response. */
static int start(struct completion *c, bool continues)
{
    struct proto_generate *g = &c->request.gen;
    struct response *s = c->response;
    int r = 0;
    if (!s->no_store) {
        const char *session = continues ? s->previous_text : c->id;
        r = set_note(c);
        if (r < 0) return r;
        strcpy(g->uuid, s->id.random);
        g->wait = true;
        r = proto_text_set(&g->session, session, strlen(session));
        if (r == 0 && continues) r = proto_text_set(&g->fork, c->id, strlen(c->id));
    }
    return r < 0 ? no_memory(c) : completion_start(c);
}

/* A session begins with the instructions and belongs to a model. */
static bool can_continue(const struct response *s)
{
    return !s->no_store && s->previous.model == s->id.model && s->previous.instructions == s->id.instructions;
}

/* The session of the previous response is known. */
static void on_previous(struct exchange *x, const struct proto_event *e)
{
    struct completion *c = x->completion;
    json_auto_t *session =
        e && e->sessions.data ? json_loadb(e->sessions.data, e->sessions.len, JSON_ALLOW_NUL, NULL) : NULL;
    bool continues = can_continue(c->response);
    if (!e) c->format->explain(c, ENOENT);
    int r = session ? responses_name_tools(c, session) : e ? no_memory(c) : -ENOENT;
    if (r == 0 && !continues) r = responses_prepend(c, session);
    if (r == 0) r = start(c, continues);
    if (r < 0) exchange_fail(x);
}

static int follow(struct completion *c)
{
    struct response *s = c->response;
    struct exchange *x = c->exchange;
    _cleanup_(freep) char *socket = NULL;
    if (can_continue(s) && !responses_unnamed(c)) return start(c, true);
    int r = response_socket(x->gateway->options, &s->previous, &socket, &x->fault);
    return r == 0 ? session_lookup(x, socket, PROTO_SESSION_SHOW, s->previous_text, on_previous) : r;
}

static int choose_id(struct completion *c)
{
    struct response *s = c->response;
    int r = model_find(c->exchange->gateway->options, c->model, &c->socket, &c->exchange->fault);
    if (r < 0) return r;
    s->id.created = (uint32_t)c->created;
    s->id.model = response_model(c->socket);
    response_id_choose(&s->id);
    response_id_write(c->id, &s->id);
    return 0;
}

int route_responses(struct exchange *x)
{
    struct completion *c = completion_new(x, &responses_format);
    json_t *object = NULL;
    if (!c) return -ENOMEM;
    c->response = calloc(1, sizeof(*c->response));
    if (!c->response) return no_memory(c);
    int r = json_body_read(&object, &x->body, &x->fault);
    if (r == 0) r = responses_read(c, object);
    json_decref(object);
    if (r == 0) r = choose_id(c);
    if (r < 0) return r;
    return *c->response->previous_text ? follow(c) : start(c, false);
}

/* SPDX-License-Identifier: MIT */
/* /hob/sessions and /hob/session: the sessions of the client, see session.* in hob-protocol(7). */
#include "client/http/daemon-call.h"
#include "client/http/http-reply.h"
#include "client/http/http-routes.h"
#include "client/http/json-body.h"
#include "libcommon/error.h"
#include <string.h>

/* A value of the query; NULL: not given. */
static const char *argument(struct exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_GET_ARGUMENT_KIND, name);
}

/* Set the name of a session, which the client must give. */
static int set_name(struct exchange *x, struct proto_text *t, const char *field, const char *name, size_t len)
{
    if (!name || !len) return fault_set(&x->fault, 400, field, "'%s' must be the name of a session", field);
    int r = proto_text_set(t, name, len);
    return r < 0 ? fault_of_error(&x->fault, r) : 0;
}

static void on_list(void *ctx, struct proto_event *e, int r)
{
    struct exchange *x = ctx;
    if (!daemon_answered(x, e, r, PROTO_EV_SESSIONS)) return;
    json_t *list = json_loadb(e->sessions.data ? e->sessions.data : "", e->sessions.len, JSON_ALLOW_NUL, NULL);
    if (!json_is_array(list)) {
        json_decref(list);
        r = fault_set(&x->fault, 502, NULL, "the daemon's sessions are not a list");
    } else {
        r = reply_json(x, json_pack("{s:o, s:s?}", "sessions", list, "next", e->next.len ? e->next.data : NULL));
    }
    if (r < 0) exchange_fail(x);
}

int route_sessions(struct exchange *x)
{
    struct proto_request q = {.type = PROTO_SESSION_LIST};
    const char *after = argument(x, "after");
    int r = after ? proto_text_set(&q.after, after, strlen(after)) : 0;
    if (r < 0) return fault_of_error(&x->fault, r);
    return daemon_call(x, argument(x, "model"), &q, on_list);
}

/* The daemon's text is the response: a session may be large. */
static void on_session(void *ctx, struct proto_event *e, int r)
{
    struct exchange *x = ctx;
    if (!daemon_answered(x, e, r, PROTO_EV_SESSIONS)) return;
    r = buf_append(&x->out, e->sessions.data ? e->sessions.data : "", e->sessions.len);
    if (r == 0)
        exchange_reply(x, 200, "application/json");
    else if (fault_of_error(&x->fault, r) < 0)
        exchange_fail(x);
}

int route_session(struct exchange *x)
{
    struct proto_request q = {.type = PROTO_SESSION_SHOW};
    const char *name = argument(x, "name");
    int r = set_name(x, &q.name, "name", name, name ? strlen(name) : 0);
    return r == 0 ? daemon_call(x, argument(x, "model"), &q, on_session) : r;
}

static void on_ok(void *ctx, struct proto_event *e, int r)
{
    struct exchange *x = ctx;
    if (!daemon_answered(x, e, r, PROTO_EV_OK)) return;
    if (reply_json(x, json_object()) < 0) exchange_fail(x);
}

/* Unknown members are refused by their names. */
static int check_members(struct exchange *x, const json_t *object, bool to)
{
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)object, name, v)
    {
        bool known = strcmp(name, "model") == 0 || strcmp(name, "name") == 0 || (to && strcmp(name, "to") == 0);
        if (!known) return fault_set(&x->fault, 400, name, "unknown field '%s'", name);
        if (!json_is_string(v)) return fault_set(&x->fault, 400, name, "'%s' must be a string", name);
    }
    return 0;
}

/* Change a session by a request of @type, which has two names (@to) or one. */
static int change(struct exchange *x, enum proto_type type, bool to)
{
    struct proto_request q = {.type = type};
    json_t *object;
    int r = json_body_read(&object, &x->body, &x->fault);
    if (r == 0) r = check_members(x, object, to);
    const json_t *from = json_object_get(object, "name"), *other = json_object_get(object, "to");
    if (r == 0) r = set_name(x, &q.name, "name", json_string_value(from), json_string_length(from));
    if (r == 0 && to) r = set_name(x, &q.to, "to", json_string_value(other), json_string_length(other));
    if (r == 0) r = daemon_call(x, json_string_value(json_object_get(object, "model")), &q, on_ok);
    proto_request_fini(&q);
    json_decref(object);
    return r;
}

int route_session_fork(struct exchange *x)
{
    return change(x, PROTO_SESSION_FORK, true);
}

int route_session_rename(struct exchange *x)
{
    return change(x, PROTO_SESSION_RENAME, true);
}

int route_session_remove(struct exchange *x)
{
    return change(x, PROTO_SESSION_REMOVE, false);
}

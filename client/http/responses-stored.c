/* SPDX-License-Identifier: MIT */
/* /v1/responses/ID: responses that the daemons have stored. */
#include "client/http/http-reply.h"
#include "client/http/http-routes.h"
#include "client/http/response-json.h"
#include "client/http/response-socket.h"
#include "client/http/session-lookup.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/json-whole.h"
#include "libcommon/units.h"
#include <string.h>

enum { PAGE = 20, PAGE_MAX = 100 };

static int no_response(struct exchange *x)
{
    fault_set(&x->fault, 404, NULL, "no response '%.64s'", x->name);
    x->fault.code = "not_found";
    return -ENOENT;
}

/* Send a request about the session of the response that the path names. */
static int look_up(struct exchange *x, enum proto_type type, session_lookup_fn fn)
{
    struct response_id id;
    _cleanup_(freep) char *socket = NULL;
    if (!response_id_read(&id, x->name)) return no_response(x);
    int r = response_socket(x->gateway->options, &id, &socket, &x->fault);
    return r == 0 ? session_lookup(x, socket, type, x->name, fn) : r;
}

/* The session of a response: 0, and the caller owns *session and *note; negative with the fault. */
static int parse(struct exchange *x, const struct proto_event *e, json_t **session, json_t **note)
{
    *session = e && e->sessions.data ? json_loadb(e->sessions.data, e->sessions.len, JSON_ALLOW_NUL, NULL) : NULL;
    const json_t *text = json_object_get(*session, "note");
    *note = text ? json_loadb(json_string_value(text), json_string_length(text), JSON_ALLOW_NUL, NULL) : NULL;
    return json_is_object(*note) ? 0 : no_response(x);
}

static const char *status_of(const json_t *outcome)
{
    const char *reason = json_string_value(json_object_get(outcome, "reason"));
    for (enum proto_reason r = PROTO_STOP_EOS; reason && r <= PROTO_STOP_TOOL_CALLS; r++)
        if (strcmp(reason, proto_reason_name(r)) == 0) return response_status(r);
    return "incomplete";
}

static uint64_t tokens(const json_t *usage, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(usage, key));
}

static json_t *usage_of(const json_t *outcome)
{
    const json_t *u = json_object_get(outcome, "usage");
    return response_usage(&(struct response_tokens){tokens(u, "prompt"), tokens(u, "cached"), tokens(u, "completion"),
                                                    tokens(u, "thinking")});
}

static void on_response(struct exchange *x, const struct proto_event *e)
{
    json_auto_t *session = NULL, *note = NULL;
    struct response_id id;
    int r = parse(x, e, &session, &note);
    if (r == 0 && response_id_read(&id, x->name)) {
        const json_t *outcome = json_object_get(session, "outcome"), *messages = json_object_get(session, "messages");
        const char *status = status_of(outcome);
        json_auto_t *model = json_incref(json_object_get(note, "model"));
        json_t *output = json_array();
        json_object_del(note, "model");
        response_add_answer(output, json_array_get(messages, json_array_size(messages) - 1), &id, status, 0);
        r = reply_json(x, response_json(&(struct response_view){.id = x->name,
                                                                .model = json_string_value(model),
                                                                .created = id.created,
                                                                .status = status,
                                                                .echo = note,
                                                                .output = output,
                                                                .usage = usage_of(outcome)}));
    }
    if (r < 0) exchange_fail(x);
}

static void on_removed(struct exchange *x, const struct proto_event *e)
{
    int r = e ? reply_json(x, json_pack("{s:s, s:s, s:b}", "id", x->name, "object", "response", "deleted", 1))
              : no_response(x);
    if (r < 0) exchange_fail(x);
}

static const char *argument(struct exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_GET_ARGUMENT_KIND, name);
}

static void reverse(json_t *list)
{
    for (size_t i = 0, j = json_array_size(list); i + 1 < j--; i++) {
        json_t *a = json_incref(json_array_get(list, i)), *b = json_incref(json_array_get(list, j));
        json_array_set_new(list, i, b);
        json_array_set_new(list, j, a);
    }
}

static const char *id_at(const json_t *list, size_t i)
{
    return json_string_value(json_object_get(json_array_get(list, i), "id"));
}

/* A page of the items @all, by the arguments of the request. */
static json_t *page_of(struct exchange *x, json_t *all)
{
    const char *after = argument(x, "after"), *limit = argument(x, "limit"), *order = argument(x, "order");
    json_t *data = json_array();
    uint64_t n = PAGE;
    size_t i = 0, size = json_array_size(all);
    if (limit) (void)!parse_u64(limit, 1, PAGE_MAX, &n);
    if (!order || strcmp(order, "asc") != 0) reverse(all);
    while (after && i < size && strcmp(id_at(all, i), after) != 0) i++;
    if (after) i++;
    for (; i < size && json_array_size(data) < n; i++) json_whole_append(data, json_incref(json_array_get(all, i)));
    size_t got = json_array_size(data);
    return json_pack("{s:s, s:o, s:s?, s:s?, s:b}", "object", "list", "data", data, "first_id",
                     got ? id_at(data, 0) : NULL, "last_id", got ? id_at(data, got - 1) : NULL, "has_more", i < size);
}

/* All messages before the answer, without the instructions. */
static void on_input(struct exchange *x, const struct proto_event *e)
{
    json_auto_t *session = NULL, *note = NULL, *items = json_array();
    struct response_id id;
    int r = parse(x, e, &session, &note);
    if (r == 0 && response_id_read(&id, x->name)) {
        const json_t *messages = json_object_get(session, "messages");
        for (size_t i = id.instructions ? 1 : 0; i + 1 < json_array_size(messages); i++)
            response_add_input(items, json_array_get(messages, i), &id);
        r = reply_json(x, page_of(x, items));
    }
    if (r < 0) exchange_fail(x);
}

int route_response(struct exchange *x)
{
    const char *stream = argument(x, "stream");
    if (stream && strcmp(stream, "true") == 0)
        return fault_set(&x->fault, 400, "stream", "a stored response cannot be streamed");
    return look_up(x, PROTO_SESSION_SHOW, on_response);
}

int route_response_delete(struct exchange *x)
{
    return look_up(x, PROTO_SESSION_REMOVE, on_removed);
}

int route_input_items(struct exchange *x)
{
    const char *limit = argument(x, "limit"), *order = argument(x, "order");
    uint64_t n;
    if (limit && parse_u64(limit, 1, PAGE_MAX, &n) < 0)
        return fault_set(&x->fault, 400, "limit", "'limit' must be a number from 1 to %d", PAGE_MAX);
    if (order && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
        return fault_set(&x->fault, 400, "order", "'order' must be asc or desc");
    return look_up(x, PROTO_SESSION_SHOW, on_input);
}

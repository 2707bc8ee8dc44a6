/* SPDX-License-Identifier: MIT */
/* The conversation before a request, from the JSON of the session of the previous response. */
#include "client/http/chat-messages.h"
#include "client/http/responses.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

static int no_memory(struct completion *c)
{
    return fault_of_error(&c->exchange->fault, error_origin(-ENOMEM));
}

static bool lacks_name(const struct proto_message *m)
{
    return m->call_id.len && !m->name.len;
}

bool responses_unnamed(const struct completion *c)
{
    for (size_t i = 0; i < c->request.gen.n_messages; i++)
        if (lacks_name(&c->request.gen.messages[i])) return true;
    return false;
}

/* The name of the tool of the last call with @id; NULL: there is none. */
static const json_t *tool_of(const json_t *messages, const char *id)
{
    for (size_t i = json_array_size(messages); i-- > 0;) {
        const json_t *calls = json_object_get(json_array_get(messages, i), "tool_calls");
        for (size_t j = json_array_size(calls); j-- > 0;) {
            const json_t *call = json_array_get(calls, j), *mine = json_object_get(call, "id");
            if (json_is_string(mine) && strcmp(json_string_value(mine), id) == 0) return json_object_get(call, "name");
        }
    }
    return NULL;
}

int responses_name_tools(struct completion *c, const json_t *session)
{
    const json_t *messages = json_object_get(session, "messages");
    for (size_t i = 0; i < c->request.gen.n_messages; i++) {
        struct proto_message *m = &c->request.gen.messages[i];
        const json_t *name = lacks_name(m) ? tool_of(messages, m->call_id.data) : NULL;
        if (name && proto_text_set(&m->name, json_string_value(name), json_string_length(name)) < 0)
            return no_memory(c);
    }
    return 0;
}

static int set_text(struct proto_text *t, const json_t *v)
{
    return json_is_string(v) ? proto_text_set(t, json_string_value(v), json_string_length(v)) : 0;
}

static int add_calls(struct completion *c, struct proto_message *m, const json_t *calls)
{
    size_t i;
    json_t *call;
    int r = 0;
    json_array_foreach((json_t *)calls, i, call)
    {
        const char *arguments = json_string_value(json_object_get(call, "arguments"));
        if (r == 0)
            r = chat_add_call(c, m, json_object_get(call, "id"), json_object_get(call, "name"),
                              arguments ? arguments : "{}", "previous_response_id");
    }
    return r;
}

static int add_message(struct completion *c, const json_t *stored)
{
    if (json_array_size(json_object_get(stored, "media")))
        return fault_set(&c->exchange->fault, 400, "previous_response_id",
                         "the previous response has images or sounds; only with its instructions and model, and with "
                         "'store', it can be continued");
    const char *role = json_string_value(json_object_get(stored, "role"));
    struct proto_message *m = chat_new(c, role ? role : "user");
    if (!m) return -ENOMEM;
    int r = set_text(&m->content, json_object_get(stored, "content"));
    if (r == 0) r = set_text(&m->thinking, json_object_get(stored, "thinking"));
    if (r == 0) r = set_text(&m->call_id, json_object_get(stored, "tool_call_id"));
    if (r == 0) r = set_text(&m->name, json_object_get(stored, "name"));
    return r < 0 ? no_memory(c) : add_calls(c, m, json_object_get(stored, "tool_calls"));
}

/* Move the messages from @from on, of @n, to the end of the request. */
static int move(struct completion *c, struct proto_message *own, size_t n, size_t from)
{
    struct proto_generate *g = &c->request.gen;
    struct proto_message *more = reallocarray(g->messages, g->n_messages + n - from + 1, sizeof(*more));
    if (!more) return no_memory(c);
    g->messages = more;
    for (size_t i = from; i < n; i++) {
        more[g->n_messages++] = own[i];
        own[i] = (struct proto_message){0};
    }
    return 0;
}

int responses_prepend(struct completion *c, const json_t *session)
{
    struct proto_generate *g = &c->request.gen;
    struct proto_message *own = g->messages;
    size_t n = g->n_messages, first = c->response->id.instructions ? 1 : 0, i;
    json_t *m;
    g->messages = NULL;
    g->n_messages = 0;
    int r = move(c, own, first, 0);
    json_array_foreach(json_object_get(session, "messages"), i, m)
    {
        bool instructions = i == 0 && c->response->previous.instructions;
        if (r == 0 && !instructions) r = add_message(c, m);
    }
    if (r == 0) r = move(c, own, n, first);
    for (i = 0; i < n; i++) proto_message_fini(&own[i]);
    free(own);
    return r;
}

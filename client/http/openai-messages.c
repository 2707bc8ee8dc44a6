/* SPDX-License-Identifier: MIT */
/* The messages of OpenAI's chat completions. */
#include "client/http/chat-messages.h"
#include "libcommon/error.h"
#include <string.h>

static bool is_empty(const json_t *v)
{
    return !v || json_is_null(v) || (json_is_array(v) && json_array_size(v) == 0);
}

static int read_call(struct completion *c, struct proto_message *m, const json_t *call, const char *place)
{
    static const char *const known[] = {"id", "type", "index", "function", NULL};
    static const char *const known_function[] = {"name", "arguments", NULL};
    const char *type = json_string_value(json_object_get(call, "type"));
    const json_t *function = json_object_get(call, "function"), *args = json_object_get(function, "arguments");
    struct fault *f = &c->exchange->fault;
    if (!json_is_object(call)) return fault_set(f, 400, place, "%s is not an object", place);
    if (type && strcmp(type, "function") != 0)
        return fault_set(f, 400, place, "%s: calls of the type '%s' are not supported", place, type);
    if (!json_is_object(function) || !json_is_string(args))
        return fault_set(f, 400, place, "%s: a call has a 'function' with 'name' and 'arguments', both strings", place);
    int r = chat_check_members(c, call, known, place);
    if (r == 0) r = chat_check_members(c, function, known_function, place);
    if (r < 0) return r;
    const char *text = json_string_length(args) ? json_string_value(args) : "{}";
    return chat_add_call(c, m, json_object_get(call, "id"), json_object_get(function, "name"), text, place);
}

static int read_calls(struct completion *c, struct proto_message *m, const json_t *list, const char *message)
{
    size_t i;
    json_t *call;
    if (!json_is_array(list))
        return fault_set(&c->exchange->fault, 400, message, "%s.tool_calls must be a list", message);
    json_array_foreach((json_t *)list, i, call)
    {
        char place[64];
        snprintf(place, sizeof(place), "%s.tool_calls[%zu]", message, i);
        int r = read_call(c, m, call, place);
        if (r < 0) return r;
    }
    return 0;
}

/* A message with calls may have no content. */
static int read_assistant(struct completion *c, const json_t *m, const char *place)
{
    static const char *const known[] = {"role", "content", "name", "refusal", "reasoning_content", "tool_calls", NULL};
    const json_t *content = json_object_get(m, "content"), *thinking = json_object_get(m, "reasoning_content");
    const json_t *calls = json_object_get(m, "tool_calls");
    bool silent = !is_empty(calls) && is_empty(content);
    struct buf text = BUF_INIT;
    int r = chat_check_members(c, m, known, place);
    if (r < 0) return r;
    struct proto_message *new = chat_new(c, "assistant");
    if (!new) return -ENOMEM;
    if (!silent) r = chat_text(c, &text, content, place);
    new->content.data = buf_steal(&text, &new->content.len);
    if (r == 0 && !is_empty(thinking)) r = chat_text(c, &text, thinking, place);
    new->thinking.data = buf_steal(&text, &new->thinking.len);
    return r == 0 && !is_empty(calls) ? read_calls(c, new, calls, place) : r;
}

/* The tool's name is not in the API, but some clients send it. */
static int read_result(struct completion *c, const json_t *m, const char *place)
{
    static const char *const known[] = {"role", "content", "name", "tool_call_id", NULL};
    const json_t *name = json_object_get(m, "name");
    int r = chat_check_members(c, m, known, place);
    if (r == 0) r = chat_add_result(c, json_object_get(m, "tool_call_id"), json_object_get(m, "content"), place);
    if (r < 0 || !json_is_string(name)) return r;
    struct proto_message *new = &c->request.gen.messages[c->request.gen.n_messages - 1];
    r = proto_text_set(&new->name, json_string_value(name), json_string_length(name));
    return r < 0 ? fault_of_error(&c->exchange->fault, error_origin(r)) : 0;
}

static int read_message(struct completion *c, const json_t *m, const char *place)
{
    static const char *const known[] = {"role", "content", "name", NULL};
    const char *role = json_string_value(json_object_get(m, "role"));
    struct fault *f = &c->exchange->fault;
    if (!role) return fault_set(f, 400, place, "%s has no role", place);
    if (strcmp(role, "assistant") == 0) return read_assistant(c, m, place);
    if (strcmp(role, "developer") == 0) role = "system";
    if (strcmp(role, "tool") == 0) return read_result(c, m, place);
    if (strcmp(role, "system") != 0 && strcmp(role, "user") != 0)
        return fault_set(f, 400, place, "%s: the role '%s' is not supported", place, role);
    int r = chat_check_members(c, m, known, place);
    return r == 0 ? chat_add(c, role, json_object_get(m, "content"), place) : r;
}

int chat_read_openai(struct completion *c, const struct field *f, const json_t *v)
{
    return chat_read_list(c, f, v, read_message);
}

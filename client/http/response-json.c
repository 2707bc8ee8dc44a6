/* SPDX-License-Identifier: MIT */
#include "client/http/response-json.h"
#include "libcommon/json-whole.h"
#include <string.h>

static const char *const echoed[] = {
    "instructions",
    "max_output_tokens",
    "metadata",
    "parallel_tool_calls",
    "previous_response_id",
    "reasoning",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
    "safety_identifier",
    "prompt_cache_key",
};

/* Each tool has the members that OpenAI's has: the arguments of a call always follow the schema. */
static json_t *echo_tools(const json_t *tools)
{
    json_t *list = json_deep_copy(tools), *tool;
    size_t i;
    json_array_foreach(list, i, tool)
    {
        if (json_is_null(json_object_get(tool, "strict"))) json_object_del(tool, "strict");
        json_t *missing = json_pack("{s:b, s:n}", "strict", 1, "parameters");
        json_object_update_missing(tool, missing);
        json_decref(missing);
    }
    return list;
}

static json_t *echo_of(const char *name, const json_t *value)
{
    if (strcmp(name, "tools") == 0) return echo_tools(value);
    json_t *own = json_deep_copy(value);
    if (strcmp(name, "text") != 0) return own;
    json_t *plain = json_pack("{s:{s:s}}", "format", "type", "text");
    if (json_is_null(json_object_get(own, "format"))) json_object_del(own, "format");
    json_object_update_missing(own, plain);
    json_decref(plain);
    return own;
}

json_t *response_echo(const json_t *object)
{
    json_t *echo =
        json_pack("{s:n, s:n, s:{}, s:b, s:n, s:{s:n, s:n}, s:b, s:n, s:{s:{s:s}}, s:s, s:[], s:n, s:s}",
                  "instructions", "max_output_tokens", "metadata", "parallel_tool_calls", 1, "previous_response_id",
                  "reasoning", "effort", "summary", "store", 1, "temperature", "text", "format", "type", "text",
                  "tool_choice", "auto", "tools", "top_p", "truncation", "disabled");
    int r = echo ? 0 : -1;
    for (size_t i = 0; r == 0 && i < sizeof(echoed) / sizeof(*echoed); i++) {
        const json_t *value = json_object_get(object, echoed[i]);
        if (value && !json_is_null(value)) r = json_object_set_new(echo, echoed[i], echo_of(echoed[i], value));
    }
    if (r == 0) return echo;
    json_decref(echo);
    return NULL;
}

json_t *response_json(const struct response_view *v)
{
    json_t *why = strcmp(v->status, "incomplete") == 0 ? json_pack("{s:s}", "reason", "max_output_tokens") : NULL;
    json_t *o = json_pack("{s:s, s:s, s:I, s:s, s:b, s:o?, s:o?, s:s, s:o, s:o*}", "id", v->id, "object", "response",
                          "created_at", (json_int_t)v->created, "status", v->status, "background", 0, "error", v->error,
                          "incomplete_details", why, "model", v->model, "output", v->output, "usage", v->usage);
    json_object_update_missing(o, (json_t *)v->echo);
    return o;
}

const char *response_status(enum proto_reason r)
{
    switch (r) {
    case PROTO_STOP_LENGTH:
    case PROTO_STOP_CONTEXT:
        return "incomplete";
    case PROTO_STOP_CANCEL:
        return "cancelled";
    default:
        return "completed";
    }
}

/* Nothing is charged for writing to the cache. */
json_t *response_usage(const struct response_tokens *t)
{
    return json_pack("{s:I, s:{s:I, s:i}, s:I, s:{s:I}, s:I}", "input_tokens", (json_int_t)t->prompt,
                     "input_tokens_details", "cached_tokens", (json_int_t)t->cached, "cache_write_tokens", 0,
                     "output_tokens", (json_int_t)t->completed, "output_tokens_details", "reasoning_tokens",
                     (json_int_t)t->thought, "total_tokens", (json_int_t)t->prompt + (json_int_t)t->completed);
}

json_t *response_part(bool thinking, const char *text, size_t n)
{
    if (thinking) return json_pack("{s:s, s:s%}", "type", "reasoning_text", "text", text ? text : "", n);
    return json_pack("{s:s, s:s%, s:[], s:[]}", "type", "output_text", "text", text ? text : "", n, "annotations",
                     "logprobs");
}

json_t *response_message(const char *id, const char *status, const char *text, size_t n)
{
    json_t *content = text ? json_pack("[o]", response_part(false, text, n)) : json_array();
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", id, "type", "message", "status", status, "role", "assistant",
                     "content", content);
}

json_t *response_reasoning(const char *id, const char *status, const char *text, size_t n)
{
    json_t *content = text ? json_pack("[o]", response_part(true, text, n)) : json_array();
    return json_pack("{s:s, s:s, s:[], s:o, s:s}", "id", id, "type", "reasoning", "summary", "content", content,
                     "status", status);
}

static json_t *text_of(const struct proto_text *t)
{
    return json_stringn(t->data ? t->data : "", t->len);
}

json_t *response_call(const char *id, const char *status, const struct proto_call *call)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "id", id, "type", "function_call", "status", status, "call_id",
                     text_of(&call->id), "name", text_of(&call->name), "arguments", text_of(&call->arguments));
}

/* The text of a key; "": it is missing. */
static struct proto_text member(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return (struct proto_text){json_is_string(v) ? (char *)(uintptr_t)json_string_value(v) : (char *)(uintptr_t) "",
                               json_string_length(v)};
}

static void add_calls(json_t *list, const json_t *calls, const struct response_id *id, size_t first)
{
    char item[RESPONSE_ITEM_ID_MAX];
    size_t i;
    const json_t *call;
    json_array_foreach((json_t *)calls, i, call)
    {
        struct proto_call parts = {
            .id = member(call, "id"), .name = member(call, "name"), .arguments = member(call, "arguments")};
        if (parts.arguments.len == 0) parts.arguments = (struct proto_text){(char *)(uintptr_t) "{}", 2};
        response_item_id(item, id, "fc", first + i);
        json_whole_append(list, response_call(item, "completed", &parts));
    }
}

void response_add_answer(json_t *list, const json_t *message, const struct response_id *id, const char *status,
                         size_t first)
{
    const struct proto_text text = member(message, "content"), thinking = member(message, "thinking");
    const json_t *calls = json_object_get(message, "tool_calls");
    char item[RESPONSE_ITEM_ID_MAX];
    if (thinking.len) {
        response_item_id(item, id, "rs", first);
        json_whole_append(list, response_reasoning(item, "completed", thinking.data, thinking.len));
    }
    if (text.len || (!thinking.len && json_array_size(calls) == 0)) {
        response_item_id(item, id, "msg", first);
        json_whole_append(list, response_message(item, "completed", text.data, text.len));
    }
    add_calls(list, calls, id, first);
    json_t *last = json_array_get(list, json_array_size(list) - 1);
    if (strcmp(status, "completed") != 0) json_whole_set(last, "status", json_string("incomplete"));
}

static void add_text(json_t *parts, const char *text, size_t n)
{
    if (n) json_whole_append(parts, json_pack("{s:s, s:s%}", "type", "input_text", "text", text, n));
}

/* The session's description has no data of images and sounds, and no format of sounds. */
static json_t *media_part(const json_t *media)
{
    const char *kind = json_string_value(json_object_get(media, "kind"));
    if (kind && strcmp(kind, "image") == 0)
        return json_pack("{s:s, s:s, s:n}", "type", "input_image", "detail", "auto", "image_url");
    return json_pack("{s:s, s:{s:s, s:s}}", "type", "input_audio", "input_audio", "data", "", "format", "wav");
}

/* The parts of a stored message of the user: images and sounds stand in the text. */
static json_t *input_parts(const json_t *message, const struct proto_text *text)
{
    json_t *parts = json_array();
    const json_t *m;
    size_t i, from = 0;
    json_array_foreach(json_object_get(message, "media"), i, m)
    {
        const json_int_t at = json_integer_value(json_object_get(m, "at"));
        if (at > (json_int_t)from && at <= (json_int_t)text->len) {
            add_text(parts, text->data + from, (size_t)at - from);
            from = (size_t)at;
        }
        json_whole_append(parts, media_part(m));
    }
    add_text(parts, text->data + from, text->len - from);
    if (!json_array_size(parts)) json_whole_append(parts, json_pack("{s:s, s:s}", "type", "input_text", "text", ""));
    return parts;
}

void response_add_input(json_t *list, const json_t *message, const struct response_id *id)
{
    const struct proto_text role = member(message, "role"), text = member(message, "content");
    size_t n = json_array_size(list);
    char item[RESPONSE_ITEM_ID_MAX];
    if (strcmp(role.data, "assistant") == 0) {
        response_add_answer(list, message, id, "completed", n + PROTO_CALLS_MAX); /* not the ids of the output */
    } else if (strcmp(role.data, "tool") == 0) {
        response_item_id(item, id, "fco", n);
        json_whole_append(list, json_pack("{s:s, s:s, s:O, s:s%, s:s}", "id", item, "type", "function_call_output",
                                          "call_id", json_object_get(message, "tool_call_id"), "output", text.data,
                                          text.len, "status", "completed"));
    } else {
        response_item_id(item, id, "in", n);
        json_whole_append(list, json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", item, "type", "message", "status",
                                          "completed", "role", role.data, "content", input_parts(message, &text)));
    }
}

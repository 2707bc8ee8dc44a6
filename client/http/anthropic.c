/* SPDX-License-Identifier: MIT */
/* POST /v1/messages and /v1/messages/count_tokens. */
#include "client/http/chat-messages.h"
#include "client/http/http-reply.h"
#include "client/http/http-routes.h"
#include "client/http/json-body.h"
#include "libcommon/error.h"
#include <string.h>

static const char *reason_of(const struct completion *c)
{
    switch (c->choices[0].reason) {
    case PROTO_STOP_LENGTH:
        return "max_tokens";
    case PROTO_STOP_CONTEXT:
        return "model_context_window_exceeded";
    default:
        return "end_turn";
    }
}

/* Of the prompt's tokens, "input_tokens" has those that were computed. */
static json_t *usage_of(const struct completion *c)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "input_tokens", (json_int_t)(c->prompt - c->cached),
                     "cache_creation_input_tokens", (json_int_t)0, "cache_read_input_tokens", (json_int_t)c->cached,
                     "output_tokens", (json_int_t)c->completed);
}

static json_t *message_of(const struct completion *c, json_t *content, const char *reason)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:s?, s:n, s:o}", "id", c->id, "type", "message", "role", "assistant",
                     "model", completion_model(c), "content", content, "stop_reason", reason, "stop_sequence", "usage",
                     usage_of(c));
}

static int open_message(struct completion *c, struct buf *out)
{
    return reply_put_event(
        out, "message_start",
        json_pack("{s:s, s:o}", "type", "message_start", "message", message_of(c, json_array(), NULL)));
}

static int begin_block(struct completion *c, struct buf *out)
{
    c->choices[0].begun = true;
    return reply_put_event(out, "content_block_start",
                           json_pack("{s:s, s:i, s:{s:s, s:s}}", "type", "content_block_start", "index", 0,
                                     "content_block", "type", "text", "text", ""));
}

static int put_text(struct completion *c, struct buf *out, const struct proto_event *e)
{
    if (!proto_is_answer(e)) return 0;
    int r = c->choices[0].begun ? 0 : begin_block(c, out);
    if (r < 0) return r;
    return reply_put_event(out, "content_block_delta",
                           json_pack("{s:s, s:i, s:{s:s, s:s%}}", "type", "content_block_delta", "index", 0, "delta",
                                     "type", "text_delta", "text", e->text.data, e->text.len));
}

static int put_end(struct completion *c, struct buf *out, uint32_t index)
{
    int r = c->choices[0].begun ? 0 : begin_block(c, out);
    if (r < 0) return r;
    return reply_put_event(out, "content_block_stop",
                           json_pack("{s:s, s:i}", "type", "content_block_stop", "index", 0));
}

static int put_close(struct completion *c, struct buf *out)
{
    json_t *end = json_pack("{s:s, s:{s:s, s:n}, s:o}", "type", "message_delta", "delta", "stop_reason", reason_of(c),
                            "stop_sequence", "usage", usage_of(c));
    int r = reply_put_event(out, "message_delta", end);
    if (r < 0) return r;
    return reply_put_event(out, "message_stop", json_pack("{s:s}", "type", "message_stop"));
}

static int put_whole(struct completion *c, struct buf *out)
{
    const struct buf *text = &c->choices[0].text;
    json_t *content = json_pack("[{s:s, s:s%}]", "type", "text", "text", text->data ? text->data : "", text->len);
    return reply_put_json(out, message_of(c, content, reason_of(c)));
}

static const struct completion_format format = {
    .api = API_ANTHROPIC,
    .id_prefix = "msg_",
    .open = open_message,
    .text = put_text,
    .end = put_end,
    .close = put_close,
    .whole = put_whole,
    .ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
};

static int read_thinking(struct completion *c, const struct field *f, const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    return type && strcmp(type, "disabled") == 0 ? 0 : field_refuse(c, f, v);
}

static const struct field fields[] = {
    {"messages", chat_read_anthropic, 0}, {"system", field_ignore, 0}, /* read before the messages */
    {"stop_sequences", field_stop, 0},    {"thinking", read_thinking, 0},     {"tools", field_refuse, 0},
    {"tool_choice", field_refuse, 0},     {"mcp_servers", field_refuse, 0},   {"container", field_refuse, 0},
    {"cache_control", field_ignore, 0},   {"inference_geo", field_ignore, 0}, {0},
};

/* The system prompt is the first message, wherever it is in the object. */
static int read_request(struct completion *c, const json_t *object)
{
    static const struct field *const tables[] = {fields, fields_common, NULL};
    const json_t *system = json_object_get(object, "system");
    int r = 0;
    if (system && !json_is_null(system)) r = chat_add(c, "system", system, "system");
    size_t before = c->request.gen.n_messages;
    if (r == 0) r = fields_read(c, object, tables);
    if (r == 0 && c->request.gen.n_messages == before)
        r = fault_set(&c->exchange->fault, 400, "messages", "'messages' is missing");
    return r;
}

static int start(struct exchange *x, bool count)
{
    struct completion *c = completion_new(x, &format);
    json_t *object = NULL;
    int r = c ? json_body_read(&object, &x->body, &x->fault) : -ENOMEM;
    if (r == 0) r = read_request(c, object);
    json_decref(object);
    if (r == 0 && !count && c->request.gen.max_tokens < 0)
        r = fault_set(&x->fault, 400, "max_tokens", "'max_tokens' is missing");
    if (r < 0) return r;
    c->count = count;
    if (count) c->request.type = PROTO_WARM;
    return completion_start(c);
}

int route_messages(struct exchange *x)
{
    return start(x, false);
}

int route_count_tokens(struct exchange *x)
{
    return start(x, true);
}

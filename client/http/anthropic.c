/* SPDX-License-Identifier: MIT */
/* POST /v1/messages and /v1/messages/count_tokens. */
#include "client/http/anthropic-fields.h"
#include "client/http/http-reply.h"
#include "client/http/http-routes.h"
#include "client/http/json-body.h"
#include "libcommon/error.h"
#include "libcommon/json-whole.h"
#include <string.h>

static const char *reason_of(const struct completion *c)
{
    switch (c->choices[0].reason) {
    case PROTO_STOP_LENGTH:
        return "max_tokens";
    case PROTO_STOP_CONTEXT:
        return "model_context_window_exceeded";
    case PROTO_STOP_TOOL_CALLS:
        return "tool_use";
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

static int close_block(struct completion *c, struct buf *out)
{
    struct choice *a = &c->choices[0];
    if (a->block == BLOCK_NONE) return 0;
    a->block = BLOCK_NONE;
    return reply_put_event(out, "content_block_stop",
                           json_pack("{s:s, s:I}", "type", "content_block_stop", "index", (json_int_t)a->n_blocks - 1));
}

/* Begin a block with @content, which is released. */
static int begin_block(struct completion *c, struct buf *out, enum block block, json_t *content)
{
    struct choice *a = &c->choices[0];
    json_t *start = json_pack("{s:s, s:I, s:o}", "type", "content_block_start", "index", (json_int_t)a->n_blocks,
                              "content_block", content);
    int r = close_block(c, out);
    if (r < 0) {
        json_decref(start);
        return r;
    }
    a->block = block;
    a->n_blocks++;
    return reply_put_event(out, "content_block_start", start);
}

/* Append @delta, which is released, to the open block. */
static int put_delta(struct completion *c, struct buf *out, json_t *delta)
{
    return reply_put_event(out, "content_block_delta",
                           json_pack("{s:s, s:I, s:o}", "type", "content_block_delta", "index",
                                     (json_int_t)c->choices[0].n_blocks - 1, "delta", delta));
}

static json_t *text_block(const char *text, size_t n)
{
    return json_pack("{s:s, s:s%}", "type", "text", "text", text, n);
}

/* Clients expect the signature, which only the maker of the thinking needs. */
static json_t *thinking_block(const char *text, size_t n)
{
    return json_pack("{s:s, s:s%, s:s}", "type", "thinking", "thinking", text, n, "signature", "");
}

/* @input is released. */
static json_t *call_block(const struct tool_call *call, json_t *input)
{
    const struct proto_text *id = &call->id, *name = &call->name;
    return json_pack("{s:s, s:s%, s:s%, s:o}", "type", "tool_use", "id", id->data ? id->data : "", id->len, "name",
                     name->data ? name->data : "", name->len, "input", input);
}

static int put_text(struct completion *c, struct buf *out, const struct proto_event *e)
{
    bool answer = proto_is_answer(e);
    enum block block = answer ? BLOCK_TEXT : BLOCK_THINKING;
    if (!answer && !c->show_thinking) return 0;
    int r = 0;
    if (c->choices[0].block != block)
        r = begin_block(c, out, block, answer ? text_block("", 0) : thinking_block("", 0));
    if (r < 0) return r;
    return put_delta(c, out,
                     json_pack("{s:s, s:s%}", "type", answer ? "text_delta" : "thinking_delta",
                               answer ? "text" : "thinking", e->text.data, e->text.len));
}

static int put_call(struct completion *c, struct buf *out, uint32_t index, bool begins)
{
    const struct tool_calls *calls = &c->choices[index].calls;
    const struct tool_call *call = &calls->calls[calls->n - 1];
    int r = begins ? begin_block(c, out, BLOCK_CALL, call_block(call, json_object())) : 0;
    if (r < 0 || call->arguments.len == 0) return r;
    return put_delta(c, out,
                     json_pack("{s:s, s:s%}", "type", "input_json_delta", "partial_json", call->arguments.data,
                               call->arguments.len));
}

/* An answer without anything has an empty text. */
static int put_end(struct completion *c, struct buf *out, uint32_t index)
{
    int r = c->choices[index].n_blocks ? 0 : begin_block(c, out, BLOCK_TEXT, text_block("", 0));
    return r == 0 ? close_block(c, out) : r;
}

static int put_close(struct completion *c, struct buf *out)
{
    json_t *end = json_pack("{s:s, s:{s:s, s:n}, s:o}", "type", "message_delta", "delta", "stop_reason", reason_of(c),
                            "stop_sequence", "usage", usage_of(c));
    int r = reply_put_event(out, "message_delta", end);
    if (r < 0) return r;
    return reply_put_event(out, "message_stop", json_pack("{s:s}", "type", "message_stop"));
}

/* The input of a call that the limit has cut is no object: the call is left out. */
static void add_calls(json_t *content, const struct tool_calls *calls)
{
    for (size_t i = 0; i < calls->n; i++) {
        const struct buf *args = &calls->calls[i].arguments;
        json_t *input = json_loadb(args->data ? args->data : "{}", args->data ? args->len : 2, 0, NULL);
        if (input) json_whole_append(content, call_block(&calls->calls[i], input));
    }
}

static int put_whole(struct completion *c, struct buf *out)
{
    const struct choice *a = &c->choices[0];
    json_t *content = json_array();
    if (c->show_thinking && a->thinking.len)
        json_whole_append(content, thinking_block(a->thinking.data, a->thinking.len));
    if (a->text.len) json_whole_append(content, text_block(a->text.data, a->text.len));
    add_calls(content, &a->calls);
    if (json_array_size(content) == 0) json_whole_append(content, text_block("", 0));
    return reply_put_json(out, message_of(c, content, reason_of(c)));
}

static const struct completion_format format = {
    .api = API_ANTHROPIC,
    .id_prefix = "msg_",
    .open = open_message,
    .text = put_text,
    .call = put_call,
    .end = put_end,
    .close = put_close,
    .whole = put_whole,
    .ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
};

static int start(struct exchange *x, bool count)
{
    struct completion *c = completion_new(x, &format);
    json_t *object = NULL;
    int r = c ? json_body_read(&object, &x->body, &x->fault) : -ENOMEM;
    if (r == 0) r = anthropic_read(c, object);
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

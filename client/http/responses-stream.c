/* SPDX-License-Identifier: MIT */
/* The body or the events of a response. */
#include "client/http/http-reply.h"
#include "client/http/response-json.h"
#include "client/http/responses-logprobs.h"
#include "client/http/responses.h"
#include "libcommon/error.h"
#include "libcommon/json-whole.h"
#include <string.h>

static json_t *usage_of(const struct completion *c)
{
    return response_usage(&(struct response_tokens){c->prompt, c->cached, c->completed, c->thought});
}

/* Releases the three values, as response_json. */
static json_t *object_of(const struct completion *c, const char *status, json_t *output, json_t *usage, json_t *error)
{
    return response_json(&(struct response_view){.id = c->id,
                                                 .model = completion_model(c),
                                                 .created = c->created,
                                                 .status = status,
                                                 .echo = c->response->echo,
                                                 .output = output,
                                                 .usage = usage,
                                                 .error = error});
}

/* Append an event with the members of @event, which is released. */
static int put(struct completion *c, struct buf *out, const char *type, json_t *event)
{
    json_whole_set(event, "type", json_string(type));
    json_whole_set(event, "sequence_number", json_integer((json_int_t)c->response->sequence++));
    return reply_put_event(out, type, event);
}

/* An event about the whole response; @output is released. */
static int put_whole_event(struct completion *c, struct buf *out, const char *type, const char *status, json_t *output,
                           json_t *usage)
{
    return put(c, out, type, json_pack("{s:o}", "response", object_of(c, status, output, usage, NULL)));
}

static int open_response(struct completion *c, struct buf *out)
{
    c->response->output = json_array();
    int r = put_whole_event(c, out, "response.created", "in_progress", json_array(), NULL);
    return r == 0 ? put_whole_event(c, out, "response.in_progress", "in_progress", json_array(), NULL) : r;
}

/* The number of the open item. */
static json_int_t number(const struct completion *c)
{
    return (json_int_t)json_array_size(c->response->output);
}

/* Of the open item. Another call may have begun. */
static const struct tool_call *call_of(const struct completion *c)
{
    return &c->choices[0].calls.calls[c->response->item.call];
}

/* The open item. @whole: with its text. */
static json_t *item_of(const struct completion *c, const char *status, bool whole)
{
    const struct response_item *item = &c->response->item;
    const char *text = whole ? item->text.data ? item->text.data : "" : NULL;
    if (item->kind == RESPONSE_MESSAGE) {
        json_t *message = response_message(item->id, status, text, item->text.len);
        if (whole) response_logprobs_put(c, json_array_get(json_object_get(message, "content"), 0));
        return message;
    }
    if (item->kind == RESPONSE_REASONING) return response_reasoning(item->id, status, text, item->text.len);
    const struct tool_call *call = call_of(c);
    const struct proto_call parts = {
        .id = call->id, .name = call->name, .arguments = {(char *)(uintptr_t)text, whole ? item->text.len : 0}};
    return response_call(item->id, status, &parts);
}

/* "response.output_item.added" or "response.output_item.done" of the open item; @item is released. */
static int put_item(struct completion *c, struct buf *out, const char *type, json_t *item)
{
    return put(c, out, type, json_pack("{s:I, s:o}", "output_index", number(c), "item", item));
}

/* "response.content_part.added" or "response.content_part.done" of the open item. */
static int put_part(struct completion *c, struct buf *out, const char *type, bool whole)
{
    const struct response_item *item = &c->response->item;
    json_t *part = response_part(item->kind == RESPONSE_REASONING, item->text.data, whole ? item->text.len : 0);
    if (whole && item->kind == RESPONSE_MESSAGE) response_logprobs_put(c, part);
    return put(c, out, type,
               json_pack("{s:s, s:I, s:I, s:o}", "item_id", item->id, "output_index", number(c), "content_index",
                         (json_int_t)0, "part", part));
}

/* Text (@key "delta" or "text") of the open item, which has a part. */
static int put_piece(struct completion *c, struct buf *out, const char *type, const char *key, const struct buf *text)
{
    const struct response_item *item = &c->response->item;
    json_t *event = json_pack("{s:s, s:I, s:I, s:s%}", "item_id", item->id, "output_index", number(c), "content_index",
                              (json_int_t)0, key, text->data ? text->data : "", text->len);
    if (item->kind == RESPONSE_MESSAGE)
        json_whole_set(event, "logprobs",
                       strcmp(key, "delta") == 0 ? response_logprobs_new(c) : response_logprobs_all(c));
    return put(c, out, type, event);
}

static int put_arguments(struct completion *c, struct buf *out, const char *text, size_t n)
{
    struct response_item *item = &c->response->item;
    int r = buf_append(&item->text, text, n);
    if (r < 0) return r;
    return put(c, out, "response.function_call_arguments.delta",
               json_pack("{s:s, s:I, s:s%}", "item_id", item->id, "output_index", number(c), "delta", text, n));
}

/* No arguments are an empty object. */
static int put_call_done(struct completion *c, struct buf *out)
{
    const struct response_item *item = &c->response->item;
    const struct proto_text *name = &call_of(c)->name;
    int r = item->text.len ? 0 : put_arguments(c, out, "{}", 2);
    if (r < 0) return r;
    return put(c, out, "response.function_call_arguments.done",
               json_pack("{s:s, s:I, s:s%, s:s%}", "item_id", item->id, "output_index", number(c), "name",
                         name->data ? name->data : "", name->len, "arguments", item->text.data ? item->text.data : "",
                         item->text.len));
}

static int close_item(struct completion *c, struct buf *out, const char *status)
{
    struct response_item *item = &c->response->item;
    bool message = item->kind == RESPONSE_MESSAGE;
    int r;
    if (item->kind == RESPONSE_NO_ITEM) return 0;
    if (item->kind == RESPONSE_CALL) {
        r = put_call_done(c, out);
    } else {
        r = put_piece(c, out, message ? "response.output_text.done" : "response.reasoning_text.done", "text",
                      &item->text);
        if (r == 0) r = put_part(c, out, "response.content_part.done", true);
    }
    json_t *whole = r == 0 ? item_of(c, status, true) : NULL;
    if (r == 0) r = put_item(c, out, "response.output_item.done", json_incref(whole));
    if (whole) json_whole_append(c->response->output, whole);
    buf_fini(&item->text);
    if (message) response_logprobs_clear(c);
    item->kind = RESPONSE_NO_ITEM;
    return r;
}

static int begin_item(struct completion *c, struct buf *out, enum response_kind kind)
{
    static const char *const names[] = {
        [RESPONSE_REASONING] = "rs", [RESPONSE_MESSAGE] = "msg", [RESPONSE_CALL] = "fc"};
    struct response *s = c->response;
    int r = close_item(c, out, "completed");
    if (r < 0) return r;
    if (kind == RESPONSE_CALL) response_logprobs_clear(c);
    s->item.kind = kind;
    s->item.call = c->choices[0].calls.n - (kind == RESPONSE_CALL);
    response_item_id(s->item.id, &s->id, names[kind], s->counts[kind - 1]++);
    r = put_item(c, out, "response.output_item.added", item_of(c, "in_progress", false));
    return r == 0 && kind != RESPONSE_CALL ? put_part(c, out, "response.content_part.added", false) : r;
}

static int put_text(struct completion *c, struct buf *out, const struct proto_event *e)
{
    struct response_item *item = &c->response->item;
    bool answer = proto_is_answer(e);
    enum response_kind kind = answer ? RESPONSE_MESSAGE : RESPONSE_REASONING;
    int r = item->kind == kind || e->text.len == 0 ? 0 : begin_item(c, out, kind);
    if (r == 0 && answer) r = response_logprobs_add(c, e);
    if (r == 0) r = buf_append(&item->text, e->text.data, e->text.len);
    if (r < 0 || e->text.len == 0) return r; /* the token is a part of a character, which follows */
    const struct buf piece = {.data = e->text.data, .len = e->text.len};
    return put_piece(c, out, answer ? "response.output_text.delta" : "response.reasoning_text.delta", "delta", &piece);
}

static int put_call(struct completion *c, struct buf *out, uint32_t index, bool begins)
{
    const struct tool_calls *calls = &c->choices[index].calls;
    const struct buf *arguments = &calls->calls[calls->n - 1].arguments;
    int r = begins ? begin_item(c, out, RESPONSE_CALL) : 0;
    if (r < 0 || arguments->len == 0) return r;
    return put_arguments(c, out, arguments->data, arguments->len);
}

/* An answer without anything is an empty message. */
static int put_end(struct completion *c, struct buf *out, uint32_t index)
{
    struct response *s = c->response;
    const char *status = response_status(c->choices[index].reason);
    int r = s->item.kind || json_array_size(s->output) ? 0 : begin_item(c, out, RESPONSE_MESSAGE);
    return r == 0 ? close_item(c, out, strcmp(status, "completed") == 0 ? status : "incomplete") : r;
}

static int put_close(struct completion *c, struct buf *out)
{
    const char *status = response_status(c->choices[0].reason);
    bool complete = strcmp(status, "completed") == 0;
    return put_whole_event(c, out, complete ? "response.completed" : "response.incomplete", status,
                           json_incref(c->response->output), usage_of(c));
}

static json_t *error_of(const struct fault *f)
{
    const char *code = f->status == 429 ? "rate_limit_exceeded" : f->status < 500 ? "invalid_prompt" : "server_error";
    return json_pack("{s:s, s:s}", "code", code, "message", f->message);
}

static int put_fault(struct completion *c, struct buf *out, const struct fault *f)
{
    json_t *output = c->response->output ? json_incref(c->response->output) : json_array();
    return put(c, out, "response.failed",
               json_pack("{s:o}", "response", object_of(c, "failed", output, NULL, error_of(f))));
}

static void add_text(json_t *message, const char *key, const struct buf *text)
{
    if (text->len) json_whole_set(message, key, json_stringn(text->data, text->len));
}

/* The answer as a message of a session. */
static json_t *message_of(const struct choice *a)
{
    json_t *message = json_pack("{s:[]}", "tool_calls"), *calls = json_object_get(message, "tool_calls");
    add_text(message, "content", &a->text);
    add_text(message, "thinking", &a->thinking);
    for (size_t i = 0; i < a->calls.n; i++) {
        const struct tool_call *call = &a->calls.calls[i];
        json_t *o = json_pack("{s:s%, s:s%}", "id", call->id.data ? call->id.data : "", call->id.len, "name",
                              call->name.data ? call->name.data : "", call->name.len);
        add_text(o, "arguments", &call->arguments);
        json_whole_append(calls, o);
    }
    return message;
}

static int put_whole(struct completion *c, struct buf *out)
{
    const struct choice *a = &c->choices[0];
    const char *status = response_status(a->reason);
    json_t *output = json_array();
    json_auto_t *message = message_of(a);
    response_add_answer(output, message, &c->response->id, status, 0);
    response_logprobs_put_whole(c, output);
    return reply_put_json(out, object_of(c, status, output, usage_of(c), NULL));
}

/* The session that the request continues is that of the previous response. */
static void explain(struct completion *c, int code)
{
    struct fault *f = &c->exchange->fault;
    if (code != ENOENT || !*c->response->previous_text) return;
    fault_set(f, 404, "previous_response_id", "no response '%s'", c->response->previous_text);
    f->code = "previous_response_not_found";
}

const struct completion_format responses_format = {
    .api = API_OPENAI,
    .id_prefix = "resp_",
    .open = open_response,
    .text = put_text,
    .call = put_call,
    .end = put_end,
    .close = put_close,
    .whole = put_whole,
    .fault = put_fault,
    .explain = explain,
    .ping = ": ping\n\n",
};

void response_free(struct response *r)
{
    if (!r) return;
    json_decref(r->echo);
    json_decref(r->output);
    json_decref(r->logprobs);
    buf_fini(&r->item.text);
    free(r);
}

/* SPDX-License-Identifier: MIT */
/* POST /v1/chat/completions. */
#include "client/http/chat-messages.h"
#include "client/http/chat-tools.h"
#include "client/http/http-reply.h"
#include "client/http/http-routes.h"
#include "client/http/openai-json.h"
#include "client/http/openai-logprobs.h"
#include "libcommon/error.h"
#include "libcommon/json-whole.h"
#include <string.h>

#define CHUNK "chat.completion.chunk"

static json_t *text_of(const struct proto_text *t)
{
    return json_stringn(t->data ? t->data : "", t->len);
}

/* Releases @delta and @logprobs. */
static int put_delta_with(struct completion *c, struct buf *out, uint32_t index, json_t *delta, json_t *logprobs,
                          const char *reason)
{
    json_t *choice = json_pack("{s:I, s:o, s:o, s:s?}", "index", (json_int_t)index, "delta", delta, "logprobs",
                               logprobs, "finish_reason", reason);
    return openai_put_chunk(c, out, CHUNK, choice, NULL);
}

static int put_delta(struct completion *c, struct buf *out, uint32_t index, json_t *delta, const char *reason)
{
    return put_delta_with(c, out, index, delta, json_null(), reason);
}

/* The first chunk of each answer has the role. */
static int open_chat(struct completion *c, struct buf *out)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < c->n; i++)
        r = put_delta(c, out, i, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL);
    return r;
}

static int put_text(struct completion *c, struct buf *out, const struct proto_event *e)
{
    bool answer = proto_is_answer(e);
    const char *key = answer ? "content" : "reasoning_content";
    json_t *logprobs = answer ? logprobs_chat(c, logprobs_of_event(e)) : json_null();
    if (e->text.len == 0 && json_array_size(json_object_get(logprobs, "content")) == 0) {
        json_decref(logprobs);
        return 0;
    }
    return put_delta_with(c, out, e->index, json_pack("{s:o}", key, text_of(&e->text)), logprobs, NULL);
}

static int put_call(struct completion *c, struct buf *out, uint32_t index, bool begins)
{
    const struct tool_calls *calls = &c->choices[index].calls;
    const struct tool_call *call = &calls->calls[calls->n - 1];
    json_int_t number = (json_int_t)calls->n - 1;
    json_t *function = json_pack("{s:o*, s:o}", "name", begins ? text_of(&call->name) : NULL, "arguments",
                                 openai_text(&call->arguments));
    json_t *piece = json_pack("{s:I, s:o*, s:s*, s:o}", "index", number, "id", begins ? text_of(&call->id) : NULL,
                              "type", begins ? "function" : NULL, "function", function);
    return put_delta(c, out, index, json_pack("{s:[o]}", "tool_calls", piece), NULL);
}

static int put_end(struct completion *c, struct buf *out, uint32_t index)
{
    return put_delta(c, out, index, json_object(), openai_reason(c->choices[index].reason));
}

static int put_close(struct completion *c, struct buf *out)
{
    return openai_put_close(c, out, CHUNK);
}

/* NULL: none. */
static json_t *calls_of(const struct choice *a)
{
    json_t *list = a->calls.n ? json_array() : NULL;
    for (size_t i = 0; i < a->calls.n; i++) {
        const struct tool_call *call = &a->calls.calls[i];
        json_whole_append(list, json_pack("{s:o, s:s, s:{s:o, s:o}}", "id", text_of(&call->id), "type", "function",
                                          "function", "name", text_of(&call->name), "arguments",
                                          openai_text(&call->arguments)));
    }
    return list;
}

/* As in OpenAI's API, an answer of only calls has no content. */
static json_t *choice_of(const struct completion *c, const struct choice *a, uint32_t index)
{
    json_t *thinking = a->thinking.len ? openai_text(&a->thinking) : NULL;
    json_t *content = a->calls.n && !a->text.len ? json_null() : openai_text(&a->text);
    json_t *logprobs = logprobs_chat(c, a->logprobs ? json_incref(a->logprobs) : json_array());
    return json_pack("{s:I, s:{s:s, s:o, s:n, s:o*, s:o*}, s:o, s:s}", "index", (json_int_t)index, "message", "role",
                     "assistant", "content", content, "refusal", "reasoning_content", thinking, "tool_calls",
                     calls_of(a), "logprobs", logprobs, "finish_reason", openai_reason(a->reason));
}

static int put_whole(struct completion *c, struct buf *out)
{
    json_t *choices = json_array();
    for (uint32_t i = 0; i < c->n; i++) json_whole_append(choices, choice_of(c, &c->choices[i], i));
    return reply_put_json(out, openai_object(c, "chat.completion", choices, openai_usage(c)));
}

static const struct completion_format format = {
    .api = API_OPENAI,
    .id_prefix = "chatcmpl-",
    .open = open_chat,
    .text = put_text,
    .call = put_call,
    .end = put_end,
    .close = put_close,
    .whole = put_whole,
    .ping = ": ping\n\n",
};

/* "text" alone is no change. */
static int read_modalities(struct completion *c, const struct field *f, const json_t *v)
{
    const char *only = json_string_value(json_array_get(v, 0));
    return json_array_size(v) == 1 && only && *only == 't' ? 0 : field_refuse(c, f, v);
}

static const struct field fields[] = {
    {"messages", chat_read_openai, 0},
    {"max_completion_tokens", field_count, offsetof(struct proto_generate, max_tokens)},
    {"modalities", read_modalities, 0},
    {"tools", tools_read_openai, 0},
    {"tool_choice", tool_choice_read_openai, 0},
    {"parallel_tool_calls", tool_parallel_read, 0},
    {"reasoning_effort", field_effort, 0},
    {"think_budget", field_budget, 0},
    {"functions", field_refuse, 0},
    {"function_call", field_refuse, 0},
    {"logprobs", logprobs_read_wanted, 0},
    {"top_logprobs", logprobs_read_top, 0},
    {"audio", field_refuse, 0},
    {"web_search_options", field_refuse, 0},
    {"verbosity", field_refuse, 0},
    {"prediction", field_ignore, 0},
    {"store", field_ignore, 0},
    {0},
};

int route_chat(struct exchange *x)
{
    struct completion *c;
    int r = openai_read(&c, x, &format, fields);
    if (r == 0 && c->request.gen.n_messages == 0) r = fault_set(&x->fault, 400, "messages", "'messages' is missing");
    if (r == 0) r = tools_check(c, "parallel_tool_calls");
    if (r == 0) r = logprobs_check(c, "'logprobs': true");
    return r == 0 ? completion_start(c) : r;
}

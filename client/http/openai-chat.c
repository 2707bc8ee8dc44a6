/* SPDX-License-Identifier: MIT */
/* POST /v1/chat/completions. */
#include "client/http/chat-messages.h"
#include "client/http/http-reply.h"
#include "client/http/http-routes.h"
#include "client/http/openai-json.h"
#include "libcommon/error.h"

#define CHUNK "chat.completion.chunk"

static int put_delta(struct completion *c, struct buf *out, uint32_t index, json_t *delta, const char *reason)
{
    json_t *choice = json_pack("{s:I, s:o, s:n, s:s?}", "index", (json_int_t)index, "delta", delta, "logprobs",
                               "finish_reason", reason);
    return openai_put_chunk(c, out, CHUNK, choice, NULL);
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
    const char *key = proto_is_answer(e) ? "content" : "reasoning_content";
    return put_delta(c, out, e->index, json_pack("{s:s%}", key, e->text.data, e->text.len), NULL);
}

static int put_end(struct completion *c, struct buf *out, uint32_t index)
{
    return put_delta(c, out, index, json_object(), openai_reason(c->choices[index].reason));
}

static int put_close(struct completion *c, struct buf *out)
{
    return openai_put_close(c, out, CHUNK);
}

static int put_whole(struct completion *c, struct buf *out)
{
    json_t *choices = json_array();
    for (uint32_t i = 0; i < c->n; i++) {
        const struct choice *a = &c->choices[i];
        json_t *thinking = a->thinking.len ? openai_text(&a->thinking) : NULL;
        json_t *choice =
            json_pack("{s:I, s:{s:s, s:o, s:n, s:o*}, s:n, s:s}", "index", (json_int_t)i, "message", "role",
                      "assistant", "content", openai_text(&a->text), "refusal", "reasoning_content", thinking,
                      "logprobs", "finish_reason", openai_reason(a->reason));
        json_array_append_new(choices, choice);
    }
    return reply_put_json(out, openai_object(c, "chat.completion", choices, openai_usage(c)));
}

static const struct completion_format format = {
    .api = API_OPENAI,
    .id_prefix = "chatcmpl-",
    .open = open_chat,
    .text = put_text,
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

/* Without tools, a choice of "none" or "auto" changes nothing. */
static int read_tool_choice(struct completion *c, const struct field *f, const json_t *v)
{
    const char *choice = json_string_value(v);
    return choice && (*choice == 'n' || *choice == 'a') ? 0 : field_refuse(c, f, v);
}

static const struct field fields[] = {
    {"messages", chat_read_openai, 0},
    {"max_completion_tokens", field_int, offsetof(struct proto_generate, max_tokens)},
    {"modalities", read_modalities, 0},
    {"tool_choice", read_tool_choice, 0},
    {"tools", field_refuse, 0},
    {"functions", field_refuse, 0},
    {"function_call", field_refuse, 0},
    {"reasoning_effort", field_refuse, 0},
    {"top_logprobs", field_refuse, 0},
    {"audio", field_refuse, 0},
    {"web_search_options", field_refuse, 0},
    {"verbosity", field_refuse, 0},
    {"parallel_tool_calls", field_ignore, 0},
    {"prediction", field_ignore, 0},
    {"store", field_ignore, 0},
    {0},
};

int route_chat(struct exchange *x)
{
    struct completion *c;
    int r = openai_read(&c, x, &format, fields);
    if (r == 0 && c->request.gen.n_messages == 0) r = fault_set(&x->fault, 400, "messages", "'messages' is missing");
    return r == 0 ? completion_start(c) : r;
}

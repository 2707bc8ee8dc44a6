/* SPDX-License-Identifier: MIT */
#include "client/http/openai-json.h"
#include "client/http/fields.h"
#include "client/http/http-reply.h"
#include "client/http/json-body.h"
#include "libcommon/json-whole.h"
#include <errno.h>

#define AT(member) offsetof(struct proto_generate, member)

const struct field openai_fields[] = {
    {"n", field_n, 0},
    {"stop", field_stop, 0},
    {"logit_bias", field_logit_bias, 0},
    {"frequency_penalty", field_float, AT(sampling.frequency_penalty)},
    {"presence_penalty", field_float, AT(sampling.presence_penalty)},
    {"stream_options", field_stream_options, 0},
    {"prompt_cache_key", field_text, AT(salt)},
    {"response_format", field_format, 0},
    {"user", field_ignore, 0},
    {"safety_identifier", field_ignore, 0},
    {"prompt_cache_retention", field_ignore, 0},
    {0},
};

int openai_read(struct completion **out, struct exchange *x, const struct completion_format *format,
                const struct field *own)
{
    const struct field *const tables[] = {own, openai_fields, fields_common, NULL};
    struct completion *c = completion_new(x, format);
    json_t *object = NULL;
    int r = c ? json_body_read(&object, &x->body, &x->fault) : -ENOMEM;
    if (r == 0) r = fields_read(c, object, tables);
    json_decref(object);
    *out = c;
    return r;
}

const char *openai_reason(enum proto_reason r)
{
    if (r == PROTO_STOP_TOOL_CALLS) return "tool_calls";
    return r == PROTO_STOP_LENGTH || r == PROTO_STOP_CONTEXT ? "length" : "stop";
}

json_t *openai_text(const struct buf *b)
{
    return json_stringn(b->data ? b->data : "", b->len);
}

json_t *openai_usage(const struct completion *c)
{
    json_t *prompt = json_pack("{s:I}", "cached_tokens", (json_int_t)c->cached);
    if (c->heard) json_whole_set(prompt, "audio_tokens", json_integer((json_int_t)c->heard));
    return json_pack("{s:I, s:I, s:I, s:o, s:{s:I}}", "prompt_tokens", (json_int_t)c->prompt, "completion_tokens",
                     (json_int_t)c->completed, "total_tokens", (json_int_t)c->prompt + (json_int_t)c->completed,
                     "prompt_tokens_details", prompt, "completion_tokens_details", "reasoning_tokens",
                     (json_int_t)c->thought);
}

json_t *openai_object(const struct completion *c, const char *object, json_t *choices, json_t *usage)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:o, s:o*}", "id", c->id, "object", object, "created",
                     (json_int_t)c->created, "model", completion_model(c), "choices", choices, "usage", usage);
}

int openai_put_chunk(const struct completion *c, struct buf *out, const char *object, json_t *choice, json_t *usage)
{
    json_t *choices = json_array();
    if (choice) json_whole_append(choices, choice);
    if (!usage && c->include_usage) usage = json_null();
    return reply_put_event(out, NULL, openai_object(c, object, choices, usage));
}

int openai_put_close(const struct completion *c, struct buf *out, const char *object)
{
    int r = c->include_usage ? openai_put_chunk(c, out, object, NULL, openai_usage(c)) : 0;
    return r == 0 ? buf_puts(out, "data: [DONE]\n\n") : r;
}

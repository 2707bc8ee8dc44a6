/* SPDX-License-Identifier: MIT */
/* POST /v1/completions: text without a chat template, or the text between two texts. */
#include "client/http/fields.h"
#include "client/http/http-reply.h"
#include "client/http/http-routes.h"
#include "client/http/openai-json.h"
#include "client/http/openai-logprobs.h"
#include "libcommon/error.h"
#include "libcommon/json-whole.h"
#include <string.h>

#define OBJECT "text_completion"

/* Releases @text and @logprobs. */
static json_t *choice_of(uint32_t index, json_t *text, json_t *logprobs, const char *reason)
{
    return json_pack("{s:o, s:I, s:o, s:s?}", "text", text, "index", (json_int_t)index, "logprobs", logprobs,
                     "finish_reason", reason);
}

static int put_piece(struct completion *c, struct buf *out, uint32_t index, const struct proto_text *t,
                     json_t *logprobs)
{
    json_t *text = json_stringn(t->data ? t->data : "", t->len);
    return openai_put_chunk(c, out, OBJECT, choice_of(index, text, logprobs, NULL), NULL);
}

static int put_text(struct completion *c, struct buf *out, const struct proto_event *e)
{
    json_t *tokens = logprobs_of_event(e);
    if (e->text.len == 0 && json_array_size(tokens) == 0) {
        json_decref(tokens);
        return 0;
    }
    return put_piece(c, out, e->index, &e->text, logprobs_text(c, tokens, &c->choices[e->index].offset));
}

static int open_text(struct completion *c, struct buf *out)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && c->echo.len && i < c->n; i++) r = put_piece(c, out, i, &c->echo, json_null());
    return r;
}

static int put_end(struct completion *c, struct buf *out, uint32_t index)
{
    const char *reason = openai_reason(c->choices[index].reason);
    return openai_put_chunk(c, out, OBJECT, choice_of(index, json_string(""), json_null(), reason), NULL);
}

static int put_close(struct completion *c, struct buf *out)
{
    return openai_put_close(c, out, OBJECT);
}

static int put_whole(struct completion *c, struct buf *out)
{
    json_t *choices = json_array();
    for (uint32_t i = 0; i < c->n; i++) {
        struct choice *a = &c->choices[i];
        json_t *tokens = a->logprobs ? json_incref(a->logprobs) : json_array();
        json_t *text = json_pack("s%+%", c->echo.data ? c->echo.data : "", c->echo.len,
                                 a->text.data ? a->text.data : "", a->text.len);
        json_whole_append(choices, choice_of(i, text, logprobs_text(c, tokens, &a->offset), openai_reason(a->reason)));
    }
    return reply_put_json(out, openai_object(c, OBJECT, choices, openai_usage(c)));
}

static const struct completion_format format = {
    .api = API_OPENAI,
    .id_prefix = "cmpl-",
    .open = open_text,
    .text = put_text,
    .end = put_end,
    .close = put_close,
    .whole = put_whole,
    .ping = ": ping\n\n",
};

/* A list with one text is that text. */
static int read_prompt(struct completion *c, const struct field *f, const json_t *v)
{
    if (json_is_array(v) && json_array_size(v) == 1) v = json_array_get(v, 0);
    if (!json_is_string(v)) return field_wrong(c, f, "one string; lists of prompts and token ids are not supported");
    return field_text(c, f, v);
}

static int read_best_of(struct completion *c, const struct field *f, const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) == 1 ? 0 : field_refuse(c, f, v);
}

static int read_echo(struct completion *c, const struct field *f, const json_t *v)
{
    if (!json_is_boolean(v)) return field_wrong(c, f, "true or false");
    c->wants_echo = json_is_true(v);
    return 0;
}

static const struct field fields[] = {
    {"prompt", read_prompt, offsetof(struct proto_generate, prompt)},
    {"suffix", field_text, offsetof(struct proto_generate, infill.suffix)},
    {"special", field_bool, offsetof(struct proto_generate, special)},
    {"best_of", read_best_of, 0},
    {"echo", read_echo, 0},
    {"logprobs", logprobs_read_text, 0},
    {0},
};

/* With a suffix the request is an infill. */
static int set_type(struct completion *c)
{
    struct proto_generate *g = &c->request.gen;
    if (g->infill.suffix.len == 0) {
        g->raw = true;
        if (g->prompt.len > 0) return 0;
        return fault_set(&c->exchange->fault, 400, "prompt", "'prompt' is missing or empty");
    }
    c->request.type = PROTO_INFILL;
    g->infill.prefix = g->prompt;
    g->prompt = (struct proto_text){0};
    return 0;
}

/* The daemon computes no probabilities of prompt tokens. */
static int set_echo(struct completion *c)
{
    struct proto_generate *g = &c->request.gen;
    if (!c->wants_echo) return 0;
    if (c->logprobs || g->infill.suffix.len)
        return fault_set(&c->exchange->fault, 400, "echo", "'echo' cannot be used with '%s'",
                         c->logprobs ? "logprobs" : "suffix");
    int r = proto_text_set(&c->echo, g->prompt.data, g->prompt.len);
    return r < 0 ? fault_of_error(&c->exchange->fault, error_origin(r)) : 0;
}

int route_completions(struct exchange *x)
{
    struct completion *c;
    int r = openai_read(&c, x, &format, fields);
    if (r == 0) r = set_type(c);
    if (r == 0) r = logprobs_check(c, "'logprobs'");
    if (r == 0) r = set_echo(c);
    return r == 0 ? completion_start(c) : r;
}

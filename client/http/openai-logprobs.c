/* SPDX-License-Identifier: MIT */
#include "client/http/openai-logprobs.h"
#include "libcommon/buf.h"
#include "libcommon/json-whole.h"
#include "libcommon/utf8.h"
#include <string.h>

#define LEAST (-9999.0) /* in place of minus infinity, which JSON lacks; as in OpenAI's API */

enum { TEXT_TOP_MAX = 5 };

int logprobs_read_wanted(struct completion *c, const struct field *f, const json_t *v)
{
    if (!json_is_boolean(v)) return field_wrong(c, f, "true or false");
    c->logprobs = json_is_true(v);
    return 0;
}

static int read_top(struct completion *c, const struct field *f, const json_t *v, int most, const char *kind)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > most)
        return field_wrong(c, f, kind);
    c->request.gen.top_logprobs = json_integer_value(v);
    return 0;
}

int logprobs_read_top(struct completion *c, const struct field *f, const json_t *v)
{
    return read_top(c, f, v, PROTO_TOP_MAX, "an integer from 0 to 20");
}

int logprobs_read_text(struct completion *c, const struct field *f, const json_t *v)
{
    if (json_is_false(v)) return 0;
    c->logprobs = true;
    return read_top(c, f, v, TEXT_TOP_MAX, "an integer from 0 to 5");
}

int logprobs_check(struct completion *c, const char *wanted)
{
    struct proto_generate *g = &c->request.gen;
    if (!c->logprobs && g->top_logprobs > 0)
        return fault_set(&c->exchange->fault, 400, "top_logprobs", "'top_logprobs' needs %s", wanted);
    if (!c->logprobs) g->top_logprobs = -1;
    if (c->logprobs && g->top_logprobs < 0) g->top_logprobs = 0;
    return 0;
}

/* The text of a token may be a part of a character: bytes that are not UTF-8 become U+FFFD. */
static json_t *string_of(const struct proto_text *t)
{
    struct buf b = BUF_INIT;
    size_t from = 0, at;
    int r = 0;
    while (r == 0 && (at = from + utf8_check(t->data + from, t->len - from)) < t->len) {
        r = buf_append(&b, t->data + from, at - from);
        if (r == 0) r = buf_puts(&b, "\xef\xbf\xbd");
        from = at + 1;
    }
    if (r == 0) r = buf_append(&b, t->data + from, t->len - from);
    json_t *string = r == 0 ? json_stringn(b.data ? b.data : "", b.len) : NULL;
    buf_fini(&b);
    return string;
}

static json_t *bytes_of(const struct proto_text *t)
{
    json_t *list = json_array();
    int r = 0;
    for (size_t i = 0; r == 0 && i < t->len; i++)
        r = json_array_append_new(list, json_integer((unsigned char)t->data[i]));
    if (r == 0) return list;
    json_decref(list);
    return NULL;
}

static json_t *token_of(const struct proto_token *t)
{
    double p = t->logprob > LEAST ? (double)t->logprob : LEAST;
    return json_pack("{s:o, s:f, s:o}", "token", string_of(&t->text), "logprob", p, "bytes", bytes_of(&t->text));
}

json_t *logprobs_of_event(const struct proto_event *e)
{
    json_t *list = json_array(), *likely, *token;
    /* A token without text ends the answer, and is no part of it. */
    if (!list || e->tokens.n_top == 0 || e->tokens.top[0].text.len == 0) return list;
    int r = 0;
    likely = json_array();
    for (size_t i = 1; r == 0 && i < e->tokens.n_top; i++)
        r = json_array_append_new(likely, token_of(&e->tokens.top[i]));
    token = token_of(&e->tokens.top[0]);
    if (json_object_set_new(token, "top_logprobs", likely) < 0) r = -1;
    if (json_array_append_new(list, token) == 0 && r == 0) return list;
    json_decref(list);
    return NULL;
}

json_t *logprobs_chat(const struct completion *c, json_t *tokens)
{
    if (c->logprobs) return json_pack("{s:o, s:n}", "content", tokens, "refusal");
    json_decref(tokens);
    return json_null();
}

static void add_to_map(json_t *map, const json_t *token)
{
    const char *text = json_string_value(json_object_get(token, "token"));
    if (!json_object_get(map, text)) json_whole_set(map, text, json_incref(json_object_get(token, "logprob")));
}

/* {"TOKEN": LOGPROB, ...}: the sampled token and the likely ones. */
static json_t *map_of(const json_t *token)
{
    json_t *map = json_object(), *t;
    size_t i;
    add_to_map(map, token);
    json_array_foreach(json_object_get(token, "top_logprobs"), i, t) add_to_map(map, t);
    return map;
}

static size_t count_characters(const json_t *token)
{
    size_t n = 0;
    for (const char *s = json_string_value(token); s && *s; s++) n += (*s & 0xc0) != 0x80;
    return n;
}

json_t *logprobs_text(const struct completion *c, json_t *tokens, size_t *offset)
{
    json_t *texts = json_array(), *values = json_array(), *tops = json_array(), *offsets = json_array(), *t;
    size_t i;
    json_array_foreach(tokens, i, t)
    {
        json_t *text = json_object_get(t, "token");
        json_whole_append(texts, json_incref(text));
        json_whole_append(values, json_incref(json_object_get(t, "logprob")));
        json_whole_append(tops, map_of(t));
        json_whole_append(offsets, json_integer((json_int_t)*offset));
        *offset += count_characters(text);
    }
    json_t *o = json_pack("{s:o, s:o, s:o, s:o}", "tokens", texts, "token_logprobs", values, "top_logprobs", tops,
                          "text_offset", offsets);
    json_decref(tokens);
    if (c->logprobs) return o;
    json_decref(o);
    return json_null();
}

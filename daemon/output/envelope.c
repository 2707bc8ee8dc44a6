/* SPDX-License-Identifier: MIT */
#include "daemon/output/envelope.h"
#include "daemon/output/mark.h"
#include <errno.h>
#include <jansson.h>
#include <string.h>

void envelope_start(struct envelope *e, const struct markup_calls *calls)
{
    buf_clear(&e->text);
    buf_clear(&e->name);
    buf_clear(&e->id);
    *e = (struct envelope){.calls = calls, .text = e->text, .name = e->name, .id = e->id};
}

void envelope_fini(struct envelope *e)
{
    buf_fini(&e->text);
    buf_fini(&e->name);
    buf_fini(&e->id);
}

static int copy(struct buf *to, const struct buf *from)
{
    return from->len ? buf_append(to, from->data, from->len) : 0;
}

int envelope_clone(struct envelope *to, const struct envelope *from)
{
    *to = *from;
    to->text = to->name = to->id = (struct buf)BUF_INIT;
    if (copy(&to->text, &from->text) == 0 && copy(&to->name, &from->name) == 0 && copy(&to->id, &from->id) == 0)
        return 0;
    envelope_fini(to);
    *to = (struct envelope){0};
    return -ENOMEM;
}

static bool is(const char *key, const char *one, const char *other, const char *third)
{
    return (*one && strcmp(key, one) == 0) || strcmp(key, other) == 0 || strcmp(key, third) == 0;
}

/* e->text is a key: what its value is. */
static int take_key(struct envelope *e)
{
    const struct markup_calls *c = e->calls;
    json_auto_t *json = json_loadb(e->text.data, e->text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    const char *key = json_string_value(json);
    e->at = ENVELOPE_COLON;
    e->what = ENVELOPE_OTHER;
    if (!key) return LITERAL_BAD;
    if (!*c->name_key) {
        if (e->has_name || !*key) return LITERAL_BAD;
        e->has_name = true;
        e->what = ENVELOPE_ARGS;
        return buf_puts(&e->name, key) < 0 ? -ENOMEM : LITERAL_MORE;
    }
    if (*c->wrapper_key && !e->wrapped && strcmp(key, c->wrapper_key) == 0)
        e->what = ENVELOPE_WRAPPER;
    else if (is(key, c->name_key, "name", "name"))
        e->what = ENVELOPE_NAME;
    else if (is(key, c->args_key, "arguments", "parameters"))
        e->what = ENVELOPE_ARGS;
    else if (is(key, c->id_key, "id", "tool_call_id"))
        e->what = ENVELOPE_ID;
    return LITERAL_MORE;
}

/* The arguments in e->text are not an object: JSON text in a string, or null. */
static int take_other_args(struct envelope *e, const json_t *v, struct buf *args)
{
    struct literal l;
    int r = LITERAL_MORE;
    if (json_is_null(v)) return buf_puts(args, "{}") < 0 ? -ENOMEM : LITERAL_MORE;
    const char *text = json_string_value(v);
    size_t n = json_string_length(v), i = 0;
    literal_start(&l, "", false);
    while (i < n && is_white(text[i])) i++;
    if (i == n || text[i] != '{') return LITERAL_BAD;
    while (i < n && r == LITERAL_MORE) r = literal_feed(&l, text[i++], args);
    while (i < n && is_white(text[i])) i++;
    return r == LITERAL_DONE && i == n ? LITERAL_MORE : r < 0 ? r : LITERAL_BAD;
}

/* The value in e->text is complete. */
static int take_value(struct envelope *e, struct buf *args)
{
    json_auto_t *v = json_loadb(e->text.data, e->text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    const char *text = json_string_value(v);
    e->at = ENVELOPE_AFTER;
    if (e->what == ENVELOPE_NAME) {
        if (!text || !*text || e->has_name) return LITERAL_BAD;
        e->has_name = true;
        return buf_puts(&e->name, text) < 0 ? -ENOMEM : LITERAL_MORE;
    }
    if (e->what == ENVELOPE_ARGS) return take_other_args(e, v, args);
    if (e->what != ENVELOPE_ID || e->id.len || json_is_null(v)) return LITERAL_MORE;
    return (text ? buf_puts(&e->id, text) : copy(&e->id, &e->text)) < 0 ? -ENOMEM : LITERAL_MORE;
}

static int begin_value(struct envelope *e, char c)
{
    if (e->what == ENVELOPE_WRAPPER) {
        if (c != '{') return LITERAL_BAD;
        e->wrapped = true;
        e->at = ENVELOPE_KEY;
        return LITERAL_MORE;
    }
    if (e->what == ENVELOPE_ARGS) {
        if (e->has_args) return LITERAL_BAD;
        e->has_args = true;
    }
    e->at = ENVELOPE_IN_VALUE;
    buf_clear(&e->text);
    literal_start(&e->value, "", false);
    return LITERAL_MORE;
}

/* The arguments, while they are an object, stream; other values are collected. */
static int in_value(struct envelope *e, char c, struct buf *args)
{
    if (e->value.at == LITERAL_START) e->streams = e->what == ENVELOPE_ARGS && c == '{';
    int r = literal_feed(&e->value, c, e->streams ? args : &e->text);
    if (r == LITERAL_DONE) {
        e->at = ENVELOPE_AFTER;
        return e->streams ? LITERAL_MORE : take_value(e, args);
    }
    if (r != LITERAL_BEHIND) return r;
    r = take_value(e, args);
    return r == LITERAL_MORE ? envelope_feed(e, c, args) : r;
}

static int after_value(struct envelope *e, char c)
{
    if (c == ',') {
        e->at = ENVELOPE_KEY;
        return LITERAL_MORE;
    }
    if (c != '}') return LITERAL_BAD;
    if (e->wrapped) {
        e->wrapped = false;
        e->at = ENVELOPE_AFTER;
        return LITERAL_MORE;
    }
    return e->has_name ? LITERAL_DONE : LITERAL_BAD;
}

int envelope_feed(struct envelope *e, char c, struct buf *args)
{
    if (e->at == ENVELOPE_IN_VALUE) return in_value(e, c, args);
    if (e->at == ENVELOPE_IN_KEY) {
        int r = literal_feed(&e->value, c, &e->text);
        if (r != LITERAL_BEHIND) return r;
        r = take_key(e);
        if (r != LITERAL_MORE) return r;
    }
    if (is_white(c)) return LITERAL_MORE;
    switch (e->at) {
    case ENVELOPE_START:
        e->at = ENVELOPE_KEY;
        return c == '{' ? LITERAL_MORE : LITERAL_BAD;
    case ENVELOPE_KEY:
        if (c == '}') return after_value(e, c);
        if (c != '"' && c != '\'') return LITERAL_BAD;
        e->at = ENVELOPE_IN_KEY;
        buf_clear(&e->text);
        literal_start(&e->value, "", false);
        return literal_feed(&e->value, c, &e->text);
    case ENVELOPE_COLON:
        e->at = ENVELOPE_VALUE;
        return c == ':' ? LITERAL_MORE : LITERAL_BAD;
    case ENVELOPE_VALUE: {
        int r = begin_value(e, c);
        return r == LITERAL_MORE && e->at == ENVELOPE_IN_VALUE ? in_value(e, c, args) : r;
    }
    default:
        return after_value(e, c);
    }
}

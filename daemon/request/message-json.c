/* SPDX-License-Identifier: MIT */
#include "daemon/request/message-json.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <string.h>

static json_t *string_of(const struct proto_text *t)
{
    return json_stringn(t->data ? t->data : "", t->len);
}

/* The key of the thought; NULL: the template writes none. */
static const char *thinking_field(const struct markup *markup)
{
    return markup->calls.form == MARKUP_HARMONY ? "thinking" : markup->thinking.field;
}

/* The content of a message, whose text is @text. */
static json_t *content_of(const struct markup *markup, const struct proto_message *m, const struct proto_text *text)
{
    const char *field = m->thinking.len ? thinking_field(markup) : NULL;
    if (field && strcmp(field, "content") == 0)
        return json_pack("[{s:s, s:o}, {s:s, s:o}]", "type", "thinking", "thinking", string_of(&m->thinking), "type",
                         "text", "text", string_of(text));
    if (field && strcmp(field, "blocks") == 0)
        return json_pack("{s:[{s:s, s:o}, {s:s, s:o}]}", "blocks", "type", "thoughts", "text", string_of(&m->thinking),
                         "type", "response", "text", string_of(text));
    if (m->n_calls && !text->len && markup->calls.null_text) return json_null();
    if (markup->typed_content) return json_pack("[{s:s, s:o}]", "type", "text", "text", string_of(text));
    return string_of(text);
}

static int set_thinking(json_t *o, const struct markup *markup, const struct proto_message *m)
{
    const char *field = thinking_field(markup);
    if (!field || strcmp(field, "content") == 0 || strcmp(field, "blocks") == 0) return 0;
    return json_object_set_new(o, field, string_of(&m->thinking)) ? -ENOMEM : 0;
}

/* 0, and the caller owns *out. */
static int arguments_of(json_t **out, const struct markup *markup, const struct proto_call *call, size_t n)
{
    json_t *args = json_loadb(call->arguments.data, call->arguments.len, 0, NULL);
    if (!json_is_object(args)) {
        json_decref(args);
        return error_say(-EINVAL, "message %zu: the arguments of a call are not the JSON text of an object", n);
    }
    *out = args;
    if (!markup->calls.string_args) return 0;
    *out = string_of(&call->arguments);
    json_decref(args);
    return *out ? 0 : -ENOMEM;
}

static int set_calls(json_t *o, const struct markup *markup, const struct proto_message *m, size_t n)
{
    json_t *list = json_array();
    if (json_object_set_new(o, "tool_calls", list)) return -ENOMEM;
    for (size_t i = 0; i < m->n_calls; i++) {
        const struct proto_call *call = &m->calls[i];
        json_t *args = NULL;
        int r = arguments_of(&args, markup, call, n);
        if (r < 0) return r;
        json_t *f = json_pack("{s:o, s:o}", "name", string_of(&call->name), "arguments", args);
        json_t *c = json_pack("{s:s, s:o}", "type", "function", "function", f);
        if (call->id.len && json_object_set_new(c, "id", string_of(&call->id))) r = -ENOMEM;
        if (json_array_append_new(list, c) || r < 0) return -ENOMEM;
    }
    return 0;
}

static int check_utf8(const struct proto_message *m, size_t n)
{
    const struct proto_text *parts[] = {&m->role, &m->content, &m->thinking};
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        size_t at = utf8_check(parts[i]->data ? parts[i]->data : "", parts[i]->len);
        if (at < parts[i]->len) return error_say(-EILSEQ, "the prompt is not UTF-8: byte %zu of message %zu", at, n);
    }
    return 0;
}

int message_push(json_t *list, const struct markup *markup, struct media_marks *marks, const struct proto_message *m,
                 size_t n)
{
    _cleanup_(buf_fini) struct buf marked = BUF_INIT;
    int r = check_utf8(m, n);
    if (r < 0) return r;
    if (m->role.len == 0) return error_say(-EINVAL, "message %zu has no role", n);
    if (m->n_media) r = media_marks_put(marks, m, n, &marked);
    if (r < 0) return r;
    const struct proto_text with_marks = {marked.data, marked.len};
    json_t *o = json_object();
    if (json_array_append_new(list, o)) return -ENOMEM;
    if (json_object_set_new(o, "role", string_of(&m->role))) r = -ENOMEM;
    if (json_object_set_new(o, "content", content_of(markup, m, m->n_media ? &with_marks : &m->content))) r = -ENOMEM;
    if (r == 0 && m->thinking.len) r = set_thinking(o, markup, m);
    if (r == 0 && m->n_calls) r = set_calls(o, markup, m, n);
    if (r == 0 && m->call_id.len && json_object_set_new(o, "tool_call_id", string_of(&m->call_id))) r = -ENOMEM;
    if (r == 0 && m->name.len && json_object_set_new(o, "name", string_of(&m->name))) r = -ENOMEM;
    return r;
}

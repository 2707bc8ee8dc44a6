/* SPDX-License-Identifier: MIT */
#include "client/columns.h"
#include "client/json.h"
#include "client/sessions-view.h"
#include "libcommon/error.h"
#include <stdbool.h>
#include <string.h>

struct show_view {
    struct buf *out;
    struct buf role, name, thinking, content; /* of the message that is open */
    struct buf call, arguments;               /* of the call that is open */
    struct buf calls;                         /* the parts of the message's earlier calls */
    struct buf media;                         /* a line for each image and sound of the message */
    struct buf kind, bytes;                   /* of the one that is open */
    struct buf failed;                        /* the error of the last turn */
    bool in_messages, in_calls, in_media;
};

/* Append a line "[HEAD NAME]", then @media (NULL: none) and @text. */
static int show_part(struct buf *out, const char *head, const char *name, const struct buf *media,
                     const struct buf *text)
{
    int r = buf_puts(out, out->len ? "\n[" : "[");
    if (r == 0 && head) r = table_plain(out, head);
    if (r == 0 && name) r = buf_puts(out, " ");
    if (r == 0 && name) r = table_plain(out, name);
    if (r == 0) r = buf_puts(out, "]\n");
    if (r == 0 && media) r = buf_append(out, media->data, media->len);
    if (r == 0) r = buf_append(out, text->data, text->len);
    return r == 0 && text->len && text->data[text->len - 1] != '\n' ? buf_puts(out, "\n") : r;
}

static const char *text_or_null(const struct buf *b)
{
    return b->len ? b->data : NULL;
}

static int show_message(struct show_view *v)
{
    int r = v->thinking.len ? show_part(v->out, "thinking", NULL, NULL, &v->thinking) : 0;
    if (r == 0 && (v->content.len || v->media.len || !v->calls.len))
        r = show_part(v->out, text_or_null(&v->role), text_or_null(&v->name), &v->media, &v->content);
    if (r == 0 && v->calls.len && v->out->len) r = buf_puts(v->out, "\n");
    if (r == 0) r = buf_append(v->out, v->calls.data, v->calls.len);
    buf_clear(&v->role);
    buf_clear(&v->name);
    buf_clear(&v->thinking);
    buf_clear(&v->content);
    buf_clear(&v->calls);
    buf_clear(&v->media);
    return r;
}

static int show_call(struct show_view *v)
{
    int r = show_part(&v->calls, "call", text_or_null(&v->call), NULL, &v->arguments);
    buf_clear(&v->call);
    buf_clear(&v->arguments);
    return r;
}

/* "[image: 12345 bytes]" */
static int show_media(struct show_view *v)
{
    int r = buf_puts(&v->media, "[");
    if (r == 0) r = table_plain(&v->media, v->kind.len ? v->kind.data : "file");
    if (r == 0) r = buf_printf(&v->media, ": %s bytes]\n", v->bytes.len ? v->bytes.data : "?");
    buf_clear(&v->kind);
    buf_clear(&v->bytes);
    return r;
}

/* The failed turn comes last, because it is the newest. */
static int show_failed(struct show_view *v)
{
    bool line = v->out->len && v->out->data[v->out->len - 1] != '\n';
    int r = buf_puts(v->out, line ? "\n\n" : v->out->len ? "\n" : "");
    if (r == 0) r = buf_puts(v->out, "[failed]\n");
    if (r == 0) r = table_plain(v->out, v->failed.data);
    return r == 0 ? buf_puts(v->out, "\n") : r;
}

/* The buffer of the string @key: of a message, or of a call. NULL: the string is not shown. */
static struct buf *show_string(struct show_view *v, unsigned depth, const char *key)
{
    if (depth == 5 && v->in_calls)
        return strcmp(key, "name") == 0 ? &v->call : strcmp(key, "arguments") == 0 ? &v->arguments : NULL;
    if (depth == 5 && v->in_media) return strcmp(key, "kind") == 0 ? &v->kind : NULL;
    if (depth != 3) return NULL;
    return strcmp(key, "role") == 0       ? &v->role
           : strcmp(key, "name") == 0     ? &v->name
           : strcmp(key, "thinking") == 0 ? &v->thinking
           : strcmp(key, "content") == 0  ? &v->content
                                          : NULL;
}

static int show_item(void *ctx, const struct json_item *item)
{
    struct show_view *v = ctx;
    const char *key = item->key ? item->key : "";
    bool string = item->kind == JSON_STRING;
    if (item->depth == 0) return !string && *item->text == '{' ? 0 : error_say(-EBADMSG, "not an object");
    if (item->depth == 1) {
        v->in_messages = item->kind == JSON_OPEN && strcmp(key, "messages") == 0;
        if (string && strcmp(key, "failed") == 0) return buf_append(&v->failed, item->text, item->len);
        return string && strcmp(key, "text") == 0 ? buf_append(v->out, item->text, item->len) : 0;
    }
    if (!v->in_messages) return 0;
    if (item->depth == 2 && item->kind == JSON_CLOSE) return show_message(v);
    if (item->depth == 3) v->in_calls = item->kind == JSON_OPEN && strcmp(key, "tool_calls") == 0;
    if (item->depth == 3) v->in_media = item->kind == JSON_OPEN && strcmp(key, "media") == 0;
    if (item->depth == 4 && v->in_calls && item->kind == JSON_CLOSE) return show_call(v);
    if (item->depth == 4 && v->in_media && item->kind == JSON_CLOSE) return show_media(v);
    if (item->depth == 5 && v->in_media && item->kind == JSON_SCALAR && strcmp(key, "bytes") == 0)
        return buf_append(&v->bytes, item->text, item->len);
    struct buf *to = string ? show_string(v, item->depth, key) : NULL;
    return to ? buf_append(to, item->text, item->len) : 0;
}

int sessions_view_show(struct buf *out, const char *json, size_t len)
{
    struct show_view v = {.out = out};
    int r = json_walk(json, len, show_item, &v);
    if (r == 0 && v.failed.len) r = show_failed(&v);
    struct buf *all[] = {&v.role,  &v.name,  &v.thinking, &v.content, &v.call,  &v.arguments,
                         &v.calls, &v.media, &v.kind,     &v.bytes,   &v.failed};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) buf_fini(all[i]);
    return r == -EBADMSG ? error_in(r, "the daemon's sessions") : r;
}

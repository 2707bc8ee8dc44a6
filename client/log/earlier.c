/* SPDX-License-Identifier: MIT */
#include "client/log/earlier.h"
#include "client/json.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

/* What is open at depth 1 and depth 3. */
struct reader {
    struct earlier *e;
    bool in_messages, in_outcome, in_calls;
};

void earlier_fini(struct earlier *e)
{
    for (size_t i = 0; i < e->n; i++) proto_message_fini(&e->messages[i]);
    free(e->messages);
    proto_text_fini(&e->model);
    proto_text_fini(&e->session);
    proto_text_fini(&e->kind);
    proto_text_fini(&e->text);
    *e = (struct earlier){0};
}

static int add_message(struct earlier *e)
{
    struct proto_message *more = reallocarray(e->messages, e->n + 1, sizeof(*more));
    if (!more) return -ENOMEM;
    e->messages = more;
    more[e->n++] = (struct proto_message){0};
    return 0;
}

static int add_call(struct proto_message *m)
{
    struct proto_call *more = reallocarray(m->calls, m->n_calls + 1, sizeof(*more));
    if (!more) return -ENOMEM;
    m->calls = more;
    more[m->n_calls++] = (struct proto_call){0};
    return 0;
}

static int set_text(struct proto_text *t, const struct json_item *item)
{
    if (!t) return 0;
    proto_text_fini(t);
    return proto_text_set(t, item->text, item->len);
}

static int set_uuid(char out[RECORD_UUID], const struct json_item *item)
{
    if (item->len >= RECORD_UUID) return error_say(-EBADMSG, "a UUID has %zu bytes", item->len);
    memcpy(out, item->text, item->len + 1);
    return 0;
}

/* A member of the whole object. */
static int top_item(struct reader *r, const struct json_item *item)
{
    struct earlier *e = r->e;
    const char *key = item->key;
    if (item->kind == JSON_SCALAR) {
        if (strcmp(key, "raw") == 0) e->raw = strcmp(item->text, "true") == 0;
        if (strcmp(key, "own") == 0) e->own = strtoul(item->text, NULL, 10);
        return 0;
    }
    if (item->kind != JSON_STRING) return 0;
    if (strcmp(key, "uuid") == 0) return set_uuid(e->uuid, item);
    if (strcmp(key, "conversation") == 0) return set_uuid(e->conversation, item);
    return set_text(strcmp(key, "model") == 0     ? &e->model
                    : strcmp(key, "session") == 0 ? &e->session
                    : strcmp(key, "kind") == 0    ? &e->kind
                    : strcmp(key, "text") == 0    ? &e->text
                                                  : NULL,
                    item);
}

static struct proto_text *message_text(struct proto_message *m, const char *key)
{
    return strcmp(key, "role") == 0           ? &m->role
           : strcmp(key, "content") == 0      ? &m->content
           : strcmp(key, "thinking") == 0     ? &m->thinking
           : strcmp(key, "tool_call_id") == 0 ? &m->call_id
           : strcmp(key, "name") == 0         ? &m->name
                                              : NULL;
}

static struct proto_text *call_text(struct proto_call *c, const char *key)
{
    return strcmp(key, "id") == 0          ? &c->id
           : strcmp(key, "name") == 0      ? &c->name
           : strcmp(key, "arguments") == 0 ? &c->arguments
                                           : NULL;
}

/* An item inside the list of messages. */
static int message_item(struct reader *r, const struct json_item *item)
{
    struct earlier *e = r->e;
    const char *key = item->key ? item->key : "";
    if (item->depth == 2) return item->kind == JSON_OPEN ? add_message(e) : 0;
    if (!e->n) return error_say(-EBADMSG, "a message is not an object");
    struct proto_message *m = &e->messages[e->n - 1];
    if (item->depth == 3 && item->kind == JSON_OPEN) {
        r->in_calls = strcmp(key, "tool_calls") == 0;
        e->media |= strcmp(key, "media") == 0;
    }
    if (item->depth == 3 && item->kind == JSON_STRING) return set_text(message_text(m, key), item);
    if (!r->in_calls) return 0;
    if (item->depth == 4 && item->kind == JSON_OPEN) return add_call(m);
    if (item->depth == 5 && item->kind == JSON_STRING && m->n_calls)
        return set_text(call_text(&m->calls[m->n_calls - 1], key), item);
    return 0;
}

static int read_item(void *ctx, const struct json_item *item)
{
    struct reader *r = ctx;
    if (item->depth == 0) return *item->text == '{' ? 0 : error_say(-EBADMSG, "not an object");
    if (item->depth == 1) {
        const char *key = item->key ? item->key : "";
        r->in_messages = item->kind == JSON_OPEN && strcmp(key, "messages") == 0;
        r->in_outcome = item->kind == JSON_OPEN && strcmp(key, "outcome") == 0;
        return item->key ? top_item(r, item) : 0;
    }
    if (r->in_messages) return message_item(r, item);
    if (r->in_outcome && item->depth == 2 && item->key && strcmp(item->key, "uuid") == 0)
        return set_uuid(r->e->outcome, item);
    return 0;
}

int earlier_read(struct earlier *e, const char *json, size_t len)
{
    struct reader r = {.e = e};
    *e = (struct earlier){0};
    int result = json_walk(json, len, read_item, &r);
    if (result == 0 && e->own > e->n) result = error_say(-EBADMSG, "fewer messages than the exchange has");
    return result;
}

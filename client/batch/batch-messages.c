/* SPDX-License-Identifier: MIT */
#include "client/batch/batch-messages.h"
#include "client/batch/json-members.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

/* The message that is read. */
struct reading {
    struct proto_generate *g;
    struct proto_message *m;
    struct buf text;
};

static int set_text(struct proto_text *t, const struct json_member *m)
{
    if (m->kind != MEMBER_STRING) return error_say(-EINVAL, "'%.64s' must be a string", m->key);
    return proto_text_set(t, m->text, m->len);
}

/* --- content --- */

struct part {
    struct buf *text;
    bool known;
};

static int on_part_key(void *ctx, const struct json_member *m)
{
    struct part *p = ctx;
    if (strcmp(m->key, "type") == 0) {
        p->known = strcmp(m->text, "text") == 0;
        return p->known ? 0 : error_say(-EINVAL, "parts of the type '%.64s' are not supported in a batch", m->text);
    }
    if (strcmp(m->key, "text") != 0 || m->kind != MEMBER_STRING)
        return error_say(-EINVAL, "a part of the content has an unknown key '%.64s'", m->key);
    return buf_append(p->text, m->text, m->len);
}

static int on_part(void *ctx, const struct json_member *m)
{
    struct reading *x = ctx;
    struct part p = {.text = &x->text};
    if (m->kind != MEMBER_OBJECT) return error_say(-EINVAL, "a part of the content is no object");
    int r = json_members(m->text, m->len, on_part_key, &p);
    return r == 0 && !p.known ? error_say(-EINVAL, "a part of the content has no 'type'") : r;
}

static int set_content(struct reading *x, const struct json_member *m)
{
    int r;
    if (m->kind == MEMBER_SCALAR && strcmp(m->text, "null") == 0) return 0; /* beside calls */
    if (m->kind != MEMBER_STRING && m->kind != MEMBER_ARRAY)
        return error_say(-EINVAL, "'content' must be a string or a list of parts");
    buf_clear(&x->text);
    if (m->kind == MEMBER_STRING)
        r = buf_append(&x->text, m->text, m->len);
    else
        r = json_members(m->text, m->len, on_part, x);
    return r == 0 ? proto_text_set(&x->m->content, x->text.data ? x->text.data : "", x->text.len) : r;
}

/* --- calls --- */

static int on_function_key(void *ctx, const struct json_member *m)
{
    struct proto_call *c = ctx;
    if (strcmp(m->key, "name") == 0) return set_text(&c->name, m);
    if (strcmp(m->key, "arguments") == 0) return set_text(&c->arguments, m);
    return error_say(-EINVAL, "a call's function has an unknown key '%.64s'", m->key);
}

static int on_call_key(void *ctx, const struct json_member *m)
{
    struct proto_call *c = ctx;
    if (strcmp(m->key, "id") == 0) return set_text(&c->id, m);
    if (strcmp(m->key, "type") == 0 && strcmp(m->text, "function") == 0) return 0;
    if (strcmp(m->key, "function") == 0 && m->kind == MEMBER_OBJECT)
        return json_members(m->text, m->len, on_function_key, c);
    return error_say(-EINVAL, "a call has an unknown key '%.64s'", m->key);
}

static int on_call(void *ctx, const struct json_member *m)
{
    struct proto_message *to = ((struct reading *)ctx)->m;
    if (m->kind != MEMBER_OBJECT) return error_say(-EINVAL, "a call is no object");
    if (to->n_calls == PROTO_CALLS_MAX) return error_say(-EINVAL, "more than %d calls", PROTO_CALLS_MAX);
    struct proto_call *more = reallocarray(to->calls, to->n_calls + 1, sizeof(*more));
    if (!more) return -ENOMEM;
    to->calls = more;
    more[to->n_calls] = (struct proto_call){0};
    return json_members(m->text, m->len, on_call_key, &more[to->n_calls++]);
}

/* --- messages --- */

static int on_message_key(void *ctx, const struct json_member *m)
{
    struct reading *x = ctx;
    if (strcmp(m->key, "role") == 0) return set_text(&x->m->role, m);
    if (strcmp(m->key, "content") == 0) return set_content(x, m);
    if (strcmp(m->key, "thinking") == 0) return set_text(&x->m->thinking, m);
    if (strcmp(m->key, "tool_call_id") == 0) return set_text(&x->m->call_id, m);
    if (strcmp(m->key, "name") == 0) return set_text(&x->m->name, m);
    if (strcmp(m->key, "tool_calls") == 0 && m->kind == MEMBER_ARRAY) return json_members(m->text, m->len, on_call, x);
    return error_say(-EINVAL, "'%.64s' cannot be honoured", m->key);
}

static int add_message(struct proto_generate *g)
{
    struct proto_message *more = reallocarray(g->messages, g->n_messages + 1, sizeof(*more));
    if (!more) return -ENOMEM;
    g->messages = more;
    more[g->n_messages++] = (struct proto_message){0};
    return 0;
}

static int on_message(void *ctx, const struct json_member *m)
{
    struct reading *x = ctx;
    size_t at = x->g->n_messages;
    int r = m->kind == MEMBER_OBJECT ? add_message(x->g) : error_say(-EINVAL, "not an object");
    if (r == 0) {
        x->m = &x->g->messages[at];
        r = json_members(m->text, m->len, on_message_key, x);
    }
    if (r == 0 && !x->m->role.len) r = error_say(-EINVAL, "no 'role'");
    return r < 0 && r != -ENOMEM ? error_in(r, "messages[%zu]", at) : r;
}

int batch_messages_read(struct proto_generate *g, const char *s, size_t len)
{
    struct reading x = {.g = g};
    int r = json_members(s, len, on_message, &x);
    buf_fini(&x.text);
    return r == 0 && !g->n_messages ? error_say(-EINVAL, "'messages' is empty") : r;
}

int batch_messages_system(struct proto_generate *g, const char *text)
{
    int r = add_message(g);
    if (r < 0) return r;
    memmove(g->messages + 1, g->messages, (g->n_messages - 1) * sizeof(*g->messages));
    g->messages[0] = (struct proto_message){0};
    r = proto_text_set(&g->messages[0].role, "system", 6);
    return r == 0 ? proto_text_set(&g->messages[0].content, text, strlen(text)) : r;
}

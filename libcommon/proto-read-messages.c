/* SPDX-License-Identifier: MIT */
/* The key `messages` of a request. */
#include "libcommon/proto-read.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(struct proto_message, member)

static int read_part(struct reading *in, const struct place *where, const msgpack_object *o, struct proto_text *text)
{
    static const struct field fields[] = {
        {.key = "type", .read = proto_read_skip},
        {.key = "text", .read = proto_read_text, .required = true},
    };
    const struct place inside = {where, "type", 0};
    if (o->type != MSGPACK_OBJECT_MAP) return proto_bad(where, "must be a map");
    const msgpack_object *type = proto_find(o, "type");
    if (!type) return proto_bad(where, "missing key 'type'");
    if (type->type != MSGPACK_OBJECT_STR) return proto_bad(&inside, "must be a string");
    char name[64];
    /* Before its keys, which are unknown here too. */
    if (!proto_is(type, "text"))
        return proto_bad(where, "part type '%s' is not supported, only 'text'",
                         proto_printable(name, type->via.str.ptr, type->via.str.size));
    return proto_read_map(in, where, o, fields, sizeof(fields) / sizeof(*fields), text);
}

/* A string, or a list of typed parts, which are joined. */
static int read_content(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                        const struct field *f)
{
    struct buf joined = BUF_INIT;
    struct reading parts = {0};
    int r = 0;
    if (o->type == MSGPACK_OBJECT_STR) return proto_read_text(in, where, o, at, f);
    if (o->type != MSGPACK_OBJECT_ARRAY) return proto_bad(where, "must be a string or a list of parts");
    for (uint32_t i = 0; i < o->via.array.size && r == 0; i++) {
        const struct place inside = {where, NULL, i};
        struct proto_text text = {0};

        r = read_part(&parts, &inside, &o->via.array.ptr[i], &text);
        if (r == 0 && text.data) r = buf_append(&joined, text.data, text.len);
        proto_text_fini(&text);
    }
    if (r == 0) r = proto_text_set(at, joined.data, joined.len);
    if (r == 0) in->bytes += joined.len + 1;
    buf_fini(&joined);
    return r;
}

static int read_call(struct reading *in, const struct place *where, const msgpack_object *o, struct proto_call *call)
{
    static const struct field fields[] = {
        {.key = "id",
         .read = proto_read_text,
         .offset = offsetof(struct proto_call, id),
         .lo = 1,
         .hi = PROTO_CALL_ID_MAX},
        {.key = "name",
         .read = proto_read_text,
         .offset = offsetof(struct proto_call, name),
         .required = true,
         .lo = 1,
         .hi = PROTO_CALL_ID_MAX},
        {.key = "arguments",
         .read = proto_read_text,
         .offset = offsetof(struct proto_call, arguments),
         .required = true},
    };
    return proto_read_map(in, where, o, fields, sizeof(fields) / sizeof(*fields), call);
}

static int read_calls(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                      const struct field *f)
{
    struct proto_message *m = at;
    size_t n = o->type == MSGPACK_OBJECT_ARRAY ? o->via.array.size : 0;
    int r = 0;
    if (o->type != MSGPACK_OBJECT_ARRAY || !n) return proto_bad(where, "must be a list of one or more calls");
    if (n > PROTO_CALLS_MAX) return proto_bad(where, "has %zu calls, the limit is %d", n, PROTO_CALLS_MAX);
    m->calls = calloc(n, sizeof(*m->calls));
    if (!m->calls) return -ENOMEM;
    m->n_calls = n;
    in->bytes += n * sizeof(*m->calls);
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct place inside = {where, NULL, i};

        r = read_call(in, &inside, &o->via.array.ptr[i], &m->calls[i]);
    }
    return r;
}

static bool has_role(const struct proto_message *m, const char *role)
{
    return m->role.len == strlen(role) && memcmp(m->role.data, role, m->role.len) == 0;
}

/* Keys that a message of this role does not have. */
static int check_message(const struct place *where, const struct proto_message *m)
{
    const char *assistant = m->calls ? "tool_calls" : m->thinking.data ? "thinking" : NULL;
    const char *tool = m->call_id.data ? "tool_call_id" : m->name.data ? "name" : NULL;
    if (assistant && !has_role(m, "assistant"))
        return proto_bad(where, "'%s' can be used only with role assistant", assistant);
    if (tool && !has_role(m, "tool")) return proto_bad(where, "'%s' can be used only with role tool", tool);
    return 0;
}

int proto_read_messages(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                        const struct field *f)
{
    static const struct field fields[] = {
        {.key = "role", .read = proto_read_text, .offset = AT(role), .required = true, .lo = 1, .hi = 64},
        {.key = "content", .read = read_content, .offset = AT(content), .required = true},
        {.key = "thinking", .read = proto_read_text, .offset = AT(thinking)},
        {.key = "tool_calls", .read = read_calls},
        {.key = "tool_call_id", .read = proto_read_text, .offset = AT(call_id), .lo = 1, .hi = PROTO_CALL_ID_MAX},
        {.key = "name", .read = proto_read_text, .offset = AT(name), .lo = 1, .hi = PROTO_CALL_ID_MAX},
    };
    struct proto_generate *g = at;
    if (o->type != MSGPACK_OBJECT_ARRAY) return proto_bad(where, "must be a list of messages");
    if (!o->via.array.size) return proto_bad(where, "the prompt is empty");
    g->messages = calloc(o->via.array.size, sizeof(*g->messages));
    if (!g->messages) return -ENOMEM;
    g->n_messages = o->via.array.size;
    in->bytes += g->n_messages * sizeof(*g->messages);
    for (size_t i = 0; i < g->n_messages; i++) {
        const struct place inside = {where, NULL, i};
        int r = proto_read_map(in, &inside, &o->via.array.ptr[i], fields, sizeof(fields) / sizeof(*fields),
                               &g->messages[i]);

        if (r == 0) r = check_message(&inside, &g->messages[i]);
        if (r < 0) return r;
    }
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* The key `messages` of a request. */
#include "libcommon/proto-read.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(struct proto_message, member)

/* A list of parts on its way into a message. */
struct parts {
    struct reading *in;
    struct proto_message *message;
    struct buf text; /* their texts, joined */
};

static int read_text_part(struct parts *p, const struct place *where, const msgpack_object *o)
{
    static const struct field fields[] = {
        {.key = "type", .read = proto_read_skip},
        {.key = "text", .read = proto_read_text, .required = true},
    };
    struct reading in = {0}; /* what is copied here is not kept */
    struct proto_text text = {0};
    int r = proto_read_map(&in, where, o, fields, sizeof(fields) / sizeof(*fields), &text);
    if (r == 0) r = buf_append(&p->text, text.data, text.len);
    proto_text_fini(&text);
    return r;
}

static int read_data(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                     const struct field *f)
{
    struct proto_media *m = at;
    if (o->type != MSGPACK_OBJECT_BIN) return proto_bad(where, "must be bytes");
    if (!o->via.bin.size) return proto_bad(where, "is empty");
    int r = blob_new(&m->file, o->via.bin.ptr, o->via.bin.size);
    if (r == 0) in->bytes += o->via.bin.size;
    return r;
}

static int read_fd(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                   const struct field *f)
{
    if (o->type != MSGPACK_OBJECT_POSITIVE_INTEGER || o->via.u64 >= in->n_fds)
        return proto_bad(where, "must be less than the number of descriptors, which is 'fds', %u", (unsigned)in->n_fds);
    if (in->used[o->via.u64]) return proto_bad(where, "two parts name descriptor %u", (unsigned)o->via.u64);
    in->used[o->via.u64] = true;
    *(uint32_t *)at = (uint32_t)o->via.u64;
    return 0;
}

static int read_media_part(struct parts *p, const struct place *where, const msgpack_object *o,
                           enum proto_media_kind kind)
{
    static const struct field fields[] = {
        {.key = "type", .read = proto_read_skip},
        {.key = "data", .read = read_data},
        {.key = "fd", .read = read_fd, .offset = offsetof(struct proto_media, fd)},
    };
    struct proto_message *message = p->message;
    if (++p->in->n_media > PROTO_MEDIA_MAX)
        return proto_bad(where, "the request has more than %d images and sounds", PROTO_MEDIA_MAX);
    struct proto_media *media = reallocarray(message->media, message->n_media + 1, sizeof(*media));
    if (!media) return -ENOMEM;
    message->media = media;
    media += message->n_media++;
    *media = (struct proto_media){.kind = kind, .at = p->text.len};
    p->in->bytes += sizeof(*media);
    int r = proto_read_map(p->in, where, o, fields, sizeof(fields) / sizeof(*fields), media);
    if (r < 0) return r;
    if (!proto_find(o, "data") == !proto_find(o, "fd")) return proto_bad(where, "needs either 'data' or 'fd'");
    return 0;
}

static int read_part(struct parts *p, const struct place *where, const msgpack_object *o)
{
    const struct place inside = {where, "type", 0};
    if (o->type != MSGPACK_OBJECT_MAP) return proto_bad(where, "must be a map");
    const msgpack_object *type = proto_find(o, "type");
    if (!type) return proto_bad(where, "missing key 'type'");
    if (type->type != MSGPACK_OBJECT_STR) return proto_bad(&inside, "must be a string");
    if (proto_is(type, "text")) return read_text_part(p, where, o);
    char name[64];
    proto_printable(name, type->via.str.ptr, type->via.str.size);
    enum proto_media_kind kind = proto_media_value(name);
    /* Before its keys, which are unknown here too. */
    if (!kind) return proto_bad(where, "part type '%s' is not supported, only 'text', 'image' and 'audio'", name);
    return read_media_part(p, where, o, kind);
}

/* A string, or a list of typed parts, whose texts are joined. */
static int read_content(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                        const struct field *f)
{
    struct proto_message *m = at;
    struct parts parts = {.in = in, .message = m, .text = BUF_INIT};
    int r = 0;
    if (o->type == MSGPACK_OBJECT_STR) return proto_read_text(in, where, o, &m->content, f);
    if (o->type != MSGPACK_OBJECT_ARRAY) return proto_bad(where, "must be a string or a list of parts");
    for (uint32_t i = 0; i < o->via.array.size && r == 0; i++) {
        const struct place inside = {where, NULL, i};

        r = read_part(&parts, &inside, &o->via.array.ptr[i]);
    }
    if (r == 0) r = proto_text_set(&m->content, parts.text.data, parts.text.len);
    if (r == 0) in->bytes += parts.text.len + 1;
    buf_fini(&parts.text);
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
        {.key = "content", .read = read_content, .required = true},
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

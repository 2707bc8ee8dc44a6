/* SPDX-License-Identifier: MIT */
#include "client/http/chat-messages.h"
#include "client/http/chat-media.h"
#include "libcommon/buf.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

static struct fault *fault_of(struct completion *c)
{
    return &c->exchange->fault;
}

/* Append the text of one part. */
static int add_part(struct completion *c, struct buf *text, const json_t *part, const char *place)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *t = NULL;
    if (type && (strcmp(type, "text") == 0 || strcmp(type, "input_text") == 0 || strcmp(type, "output_text") == 0))
        t = json_object_get(part, "text");
    if (type && strcmp(type, "refusal") == 0) t = json_object_get(part, "refusal");
    if (!t && type && strcmp(type, "text") != 0)
        return fault_set(fault_of(c), 400, place, "%s: parts of the type '%s' are not supported", place, type);
    if (!json_is_string(t)) return fault_set(fault_of(c), 400, place, "%s: a part has no text", place);
    int r = buf_append(text, json_string_value(t), json_string_length(t));
    return r < 0 ? fault_of_error(fault_of(c), r) : 0;
}

/* Append the text of @content to @text, and its images and sounds to @m (NULL: they are refused). */
static int add_content(struct completion *c, struct proto_message *m, struct buf *text, const json_t *content,
                       const char *place)
{
    size_t i;
    json_t *part;
    int r = 0;
    if (json_is_string(content)) {
        r = buf_append(text, json_string_value(content), json_string_length(content));
        return r < 0 ? fault_of_error(fault_of(c), r) : 0;
    }
    if (!json_is_array(content))
        return fault_set(fault_of(c), 400, place, "%s must be a string or a list of parts", place);
    json_array_foreach((json_t *)content, i, part)
    {
        char inside[64];
        snprintf(inside, sizeof(inside), "%s.content[%zu]", place, i);
        r = m ? chat_media(c, m, text->len, part, inside) : 1;
        if (r > 0) r = add_part(c, text, part, place);
        if (r < 0) return r;
    }
    return 0;
}

int chat_text(struct completion *c, struct buf *text, const json_t *content, const char *place)
{
    return add_content(c, NULL, text, content, place);
}

struct proto_message *chat_new(struct completion *c, const char *role)
{
    struct proto_generate *g = &c->request.gen;
    struct proto_message *more = reallocarray(g->messages, g->n_messages + 1, sizeof(*more)), *m = NULL;
    if (more) {
        g->messages = more;
        m = &g->messages[g->n_messages++];
        *m = (struct proto_message){0};
    }
    if (m && proto_text_set(&m->role, role, strlen(role)) == 0) return m;
    fault_of_error(fault_of(c), error_origin(-ENOMEM));
    return NULL;
}

int chat_add(struct completion *c, const char *role, const json_t *content, const char *place)
{
    struct buf text = BUF_INIT;
    struct proto_message *m = chat_new(c, role);
    int r = m ? add_content(c, m, &text, content, place) : -ENOMEM;
    if (m) m->content.data = buf_steal(&text, &m->content.len);
    return r;
}

/* An id or a name, which is required. */
static int set_name(struct completion *c, struct proto_text *t, const json_t *v, const char *key, const char *place)
{
    if (!json_is_string(v) || json_string_length(v) == 0)
        return fault_set(fault_of(c), 400, place, "%s: '%s' is missing or not a string", place, key);
    int r = proto_text_set(t, json_string_value(v), json_string_length(v));
    return r < 0 ? fault_of_error(fault_of(c), error_origin(r)) : 0;
}

int chat_add_result(struct completion *c, const json_t *id, const json_t *content, const char *place)
{
    int r = chat_add(c, "tool", content, place);
    if (r < 0) return r;
    struct proto_message *m = &c->request.gen.messages[c->request.gen.n_messages - 1];
    return set_name(c, &m->call_id, id, "id of the call", place);
}

int chat_add_call(struct completion *c, struct proto_message *m, const json_t *id, const json_t *name,
                  const char *arguments, const char *place)
{
    struct proto_call *more, *call;
    if (m->n_calls == PROTO_CALLS_MAX)
        return fault_set(fault_of(c), 400, place, "%s has more than %d calls", place, PROTO_CALLS_MAX);
    more = arguments ? reallocarray(m->calls, m->n_calls + 1, sizeof(*more)) : NULL;
    if (!more) return fault_of_error(fault_of(c), error_origin(-ENOMEM));
    m->calls = more;
    call = &m->calls[m->n_calls++];
    *call = (struct proto_call){0};
    int r = set_name(c, &call->id, id, "id", place);
    if (r == 0) r = set_name(c, &call->name, name, "name", place);
    if (r == 0 && proto_text_set(&call->arguments, arguments, strlen(arguments)) < 0)
        r = fault_of_error(fault_of(c), error_origin(-ENOMEM));
    return r;
}

int chat_check_members(struct completion *c, const json_t *object, const char *const *known, const char *place)
{
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)object, name, v)
    {
        size_t i = 0;
        while (known[i] && strcmp(known[i], name) != 0) i++;
        if (!known[i] && !json_is_null(v) && !json_is_false(v) && !(json_is_array(v) && json_array_size(v) == 0))
            return fault_set(fault_of(c), 400, place, "%s: '%s' is not supported", place, name);
    }
    return 0;
}

/* Name the tool of the result @m, one of the calls of @asker. */
static int name_result(struct proto_message *m, const struct proto_message *asker)
{
    for (size_t i = 0; i < asker->n_calls; i++) {
        const struct proto_call *call = &asker->calls[i];
        if (call->id.len == m->call_id.len && memcmp(call->id.data, m->call_id.data, call->id.len) == 0)
            return proto_text_set(&m->name, call->name.data, call->name.len);
    }
    return 0;
}

static int name_results(struct completion *c)
{
    struct proto_generate *g = &c->request.gen;
    const struct proto_message *asker = NULL; /* the last message with calls */
    int r = 0;
    for (size_t i = 0; r == 0 && i < g->n_messages; i++) {
        struct proto_message *m = &g->messages[i];
        if (m->n_calls) asker = m;
        if (asker && m->call_id.len && !m->name.len) r = name_result(m, asker);
    }
    return r < 0 ? fault_of_error(fault_of(c), error_origin(r)) : 0;
}

int chat_read_list(struct completion *c, const struct field *f, const json_t *v,
                   int (*read)(struct completion *c, const json_t *m, const char *place))
{
    size_t i;
    json_t *m;
    if (!json_is_array(v) || json_array_size(v) == 0) return field_wrong(c, f, "a list of messages, not empty");
    json_array_foreach((json_t *)v, i, m)
    {
        char place[32];
        snprintf(place, sizeof(place), "%s[%zu]", f->name, i);
        if (!json_is_object(m)) return fault_set(fault_of(c), 400, place, "%s is not an object", place);
        int r = read(c, m, place);
        if (r < 0) return r;
    }
    return name_results(c);
}

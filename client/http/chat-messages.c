/* SPDX-License-Identifier: MIT */
#include "client/http/chat-messages.h"
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
    if (type && (strcmp(type, "text") == 0 || strcmp(type, "input_text") == 0)) t = json_object_get(part, "text");
    if (type && strcmp(type, "refusal") == 0) t = json_object_get(part, "refusal");
    if (!t && type && strcmp(type, "text") != 0)
        return fault_set(fault_of(c), 400, place, "%s: parts of the type '%s' are not supported", place, type);
    if (!json_is_string(t)) return fault_set(fault_of(c), 400, place, "%s: a part has no text", place);
    int r = buf_append(text, json_string_value(t), json_string_length(t));
    return r < 0 ? fault_of_error(fault_of(c), r) : 0;
}

static int read_content(struct completion *c, struct buf *text, const json_t *content, const char *place)
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
        r = add_part(c, text, part, place);
        if (r < 0) return r;
    }
    return 0;
}

int chat_add(struct completion *c, const char *role, const json_t *content, const char *place)
{
    struct proto_generate *g = &c->request.gen;
    struct buf text = BUF_INIT;
    struct proto_message *more = reallocarray(g->messages, g->n_messages + 1, sizeof(*more)), *m;
    if (!more) return fault_of_error(fault_of(c), error_origin(-ENOMEM));
    g->messages = more;
    m = &g->messages[g->n_messages++];
    *m = (struct proto_message){0};
    int r = read_content(c, &text, content, place);
    if (r == 0 && proto_text_set(&m->role, role, strlen(role)) < 0)
        r = fault_of_error(fault_of(c), error_origin(-ENOMEM));
    m->content.data = buf_steal(&text, &m->content.len);
    return r;
}

/* Refuse a member of a message that changes its meaning. */
static int check_members(struct completion *c, const json_t *message, const char *const *known, const char *place)
{
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)message, name, v)
    {
        size_t i = 0;
        while (known[i] && strcmp(known[i], name) != 0) i++;
        if (!known[i] && !json_is_null(v) && !(json_is_array(v) && json_array_size(v) == 0))
            return fault_set(fault_of(c), 400, place, "%s: '%s' is not supported", place, name);
    }
    return 0;
}

static int read_openai(struct completion *c, const json_t *m, const char *place)
{
    static const char *const known[] = {"role", "content", "name", "refusal", "reasoning_content", NULL};
    const char *role = json_string_value(json_object_get(m, "role"));
    const json_t *content = json_object_get(m, "content");
    if (!role) return fault_set(fault_of(c), 400, place, "%s has no role", place);
    if (strcmp(role, "developer") == 0) role = "system";
    if (strcmp(role, "system") != 0 && strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0)
        return fault_set(fault_of(c), 400, place, "%s: the role '%s' is not supported", place, role);
    int r = check_members(c, m, known, place);
    return r == 0 ? chat_add(c, role, content, place) : r;
}

static int read_anthropic(struct completion *c, const json_t *m, const char *place)
{
    static const char *const known[] = {"role", "content", NULL};
    const char *role = json_string_value(json_object_get(m, "role"));
    if (!role || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0))
        return fault_set(fault_of(c), 400, place, "%s: the role must be user or assistant", place);
    int r = check_members(c, m, known, place);
    return r == 0 ? chat_add(c, role, json_object_get(m, "content"), place) : r;
}

static int read_list(struct completion *c, const struct field *f, const json_t *v,
                     int (*read)(struct completion *c, const json_t *m, const char *place))
{
    size_t i;
    json_t *m;
    if (!json_is_array(v) || json_array_size(v) == 0) return field_wrong(c, f, "a list of messages, not empty");
    json_array_foreach((json_t *)v, i, m)
    {
        char place[32];
        snprintf(place, sizeof(place), "messages[%zu]", i);
        if (!json_is_object(m)) return fault_set(fault_of(c), 400, place, "%s is not an object", place);
        int r = read(c, m, place);
        if (r < 0) return r;
    }
    return 0;
}

int chat_read_openai(struct completion *c, const struct field *f, const json_t *v)
{
    return read_list(c, f, v, read_openai);
}

int chat_read_anthropic(struct completion *c, const struct field *f, const json_t *v)
{
    return read_list(c, f, v, read_anthropic);
}

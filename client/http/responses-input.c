/* SPDX-License-Identifier: MIT */
/* The input of /v1/responses: a text or a list of items. The items of one answer become one message. */
#include "client/http/chat-messages.h"
#include "client/http/responses.h"
#include "libcommon/error.h"
#include <string.h>

/* The assistant's message that a next item of the same answer joins; NULL: there is none. */
static struct proto_message *open_answer(struct completion *c)
{
    struct proto_generate *g = &c->request.gen;
    struct proto_message *last = g->n_messages ? &g->messages[g->n_messages - 1] : NULL;
    return last && strcmp(last->role.data, "assistant") == 0 ? last : NULL;
}

/* Text follows the thinking of its answer. */
static int read_answer(struct completion *c, const json_t *content, const char *place)
{
    struct proto_message *m = open_answer(c);
    struct buf text = BUF_INIT;
    if (!m || m->content.len || m->n_calls) m = chat_new(c, "assistant");
    if (!m) return -ENOMEM;
    int r = chat_text(c, &text, content, place);
    proto_text_fini(&m->content);
    m->content.data = buf_steal(&text, &m->content.len);
    return r;
}

static int read_message(struct completion *c, const json_t *item, const char *place)
{
    static const char *const known[] = {"type", "role", "content", "id", "status", "phase", NULL};
    const char *role = json_string_value(json_object_get(item, "role"));
    const json_t *content = json_object_get(item, "content");
    int r = chat_check_members(c, item, known, place);
    if (r < 0) return r;
    if (!role) return fault_set(&c->exchange->fault, 400, place, "%s has no role", place);
    if (strcmp(role, "assistant") == 0) return read_answer(c, content, place);
    if (strcmp(role, "developer") == 0) role = "system";
    if (strcmp(role, "system") != 0 && strcmp(role, "user") != 0)
        return fault_set(&c->exchange->fault, 400, place, "%s: the role '%s' is not supported", place, role);
    return chat_add(c, role, content, place);
}

/* A summary is not the thinking: an item without its content is left out. */
static int read_reasoning(struct completion *c, const json_t *item, const char *place)
{
    static const char *const known[] = {"type", "id", "status", "summary", "content", NULL};
    const json_t *content = json_object_get(item, "content");
    struct buf text = BUF_INIT;
    size_t i;
    json_t *part;
    int r = chat_check_members(c, item, known, place);
    if (r < 0 || json_array_size(content) == 0) return r;
    json_array_foreach((json_t *)content, i, part)
    {
        if (r == 0) r = chat_text(c, &text, json_object_get(part, "text"), place);
    }
    struct proto_message *m = r == 0 ? chat_new(c, "assistant") : NULL;
    if (m)
        m->thinking.data = buf_steal(&text, &m->thinking.len);
    else
        buf_fini(&text);
    return r == 0 && !m ? -ENOMEM : r;
}

static int read_call(struct completion *c, const json_t *item, const char *place)
{
    static const char *const known[] = {"type", "id", "status", "call_id", "name", "arguments", NULL};
    const json_t *arguments = json_object_get(item, "arguments");
    struct proto_message *m = open_answer(c);
    int r = chat_check_members(c, item, known, place);
    if (r < 0) return r;
    if (!json_is_string(arguments))
        return fault_set(&c->exchange->fault, 400, place, "%s: 'arguments' is missing or not a string", place);
    if (!m) m = chat_new(c, "assistant");
    if (!m) return -ENOMEM;
    return chat_add_call(c, m, json_object_get(item, "call_id"), json_object_get(item, "name"),
                         json_string_length(arguments) ? json_string_value(arguments) : "{}", place);
}

static int read_result(struct completion *c, const json_t *item, const char *place)
{
    static const char *const known[] = {"type", "id", "status", "call_id", "output", NULL};
    int r = chat_check_members(c, item, known, place);
    if (r < 0) return r;
    return chat_add_result(c, json_object_get(item, "call_id"), json_object_get(item, "output"), place);
}

static int read_item(struct completion *c, const json_t *item, const char *place)
{
    static const struct {
        const char *type;
        int (*read)(struct completion *c, const json_t *item, const char *place);
    } types[] = {
        {"message", read_message},
        {"reasoning", read_reasoning},
        {"function_call", read_call},
        {"function_call_output", read_result},
    };
    const char *type = json_string_value(json_object_get(item, "type"));
    if (!type) return read_message(c, item, place);
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        if (strcmp(type, types[i].type) == 0) return types[i].read(c, item, place);
    return fault_set(&c->exchange->fault, 400, place, "%s: items of the type '%s' are not supported", place, type);
}

int responses_read_input(struct completion *c, const struct field *f, const json_t *v)
{
    if (json_is_string(v)) return json_string_length(v) ? chat_add(c, "user", v, f->name) : 0;
    if (!json_is_array(v)) return field_wrong(c, f, "a string or a list of items");
    return chat_read_list(c, f, v, read_item);
}

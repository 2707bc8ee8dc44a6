/* SPDX-License-Identifier: MIT */
/* The messages of Anthropic's API: their content is a text or a list of blocks. */
#include "client/http/chat-media.h"
#include "client/http/chat-messages.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <string.h>

static const char *type_of(const json_t *block)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    return type ? type : "";
}

/* Append the text of one block that has no other meaning. */
static int add_text(struct completion *c, struct buf *text, json_t *block, const char *place)
{
    json_auto_t *list = json_pack("[O]", block);
    return list ? chat_text(c, text, list, place) : fault_of_error(&c->exchange->fault, error_origin(-ENOMEM));
}

static int add_call(struct completion *c, struct proto_message *m, const json_t *block, const char *place)
{
    static const char *const known[] = {"type", "id", "name", "input", "cache_control", "caller", NULL};
    const json_t *input = json_object_get(block, "input");
    if (!json_is_object(input))
        return fault_set(&c->exchange->fault, 400, place, "%s: the 'input' of a tool_use is not an object", place);
    int r = chat_check_members(c, block, known, place);
    if (r < 0) return r;
    _cleanup_(freep) char *arguments = json_dumps(input, JSON_COMPACT);
    return chat_add_call(c, m, json_object_get(block, "id"), json_object_get(block, "name"), arguments, place);
}

/* Its blocks are one message. */
static int read_assistant(struct completion *c, const json_t *blocks, const char *place)
{
    struct buf text = BUF_INIT, thinking = BUF_INIT;
    struct proto_message *m = chat_new(c, "assistant");
    size_t i;
    json_t *block;
    int r = m ? 0 : -ENOMEM;
    json_array_foreach((json_t *)blocks, i, block)
    {
        const char *type = type_of(block);
        if (r < 0) break;
        if (strcmp(type, "tool_use") == 0)
            r = add_call(c, m, block, place);
        else if (strcmp(type, "thinking") == 0)
            r = chat_text(c, &thinking, json_object_get(block, "thinking"), place);
        else
            r = add_text(c, &text, block, place);
    }
    if (!m) return r;
    m->content.data = buf_steal(&text, &m->content.len);
    m->thinking.data = buf_steal(&thinking, &m->thinking.len);
    return r;
}

/* The content may be missing. The text tells the model whether the tool failed. */
static int add_result(struct completion *c, const json_t *block, const char *place)
{
    static const char *const known[] = {"type", "tool_use_id", "content", "is_error", "cache_control", NULL};
    json_auto_t *none = json_string("");
    const json_t *content = json_object_get(block, "content");
    int r = chat_check_members(c, block, known, place);
    if (r < 0) return r;
    return chat_add_result(c, json_object_get(block, "tool_use_id"), content ? content : none, place);
}

/* Each result of a tool is a message, and so is the text between them. */
static int read_user(struct completion *c, const json_t *blocks, const char *place)
{
    struct buf text = BUF_INIT;
    struct proto_message *m = NULL; /* the user's, to which a next text belongs */
    size_t i;
    json_t *block;
    int r = 0;
    json_array_foreach((json_t *)blocks, i, block)
    {
        bool result = strcmp(type_of(block), "tool_result") == 0;
        if (m && result) m->content.data = buf_steal(&text, &m->content.len);
        if (result) {
            m = NULL;
            r = add_result(c, block, place);
        } else {
            if (!m) m = chat_new(c, "user");
            char inside[64];
            snprintf(inside, sizeof(inside), "%s.content[%zu]", place, i);
            r = m ? chat_media(c, m, text.len, block, inside) : -ENOMEM;
            if (r > 0) r = add_text(c, &text, block, place);
        }
        if (r < 0) break;
    }
    if (m) m->content.data = buf_steal(&text, &m->content.len);
    return r;
}

static int read_message(struct completion *c, const json_t *m, const char *place)
{
    static const char *const known[] = {"role", "content", NULL};
    const char *role = json_string_value(json_object_get(m, "role"));
    const json_t *content = json_object_get(m, "content");
    if (!role || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0 && strcmp(role, "system") != 0))
        return fault_set(&c->exchange->fault, 400, place, "%s: the role must be user, assistant or system", place);
    int r = chat_check_members(c, m, known, place);
    if (r < 0) return r;
    if (*role == 's' || !json_is_array(content) || json_array_size(content) == 0)
        return chat_add(c, role, content, place);
    return *role == 'a' ? read_assistant(c, content, place) : read_user(c, content, place);
}

int chat_read_anthropic(struct completion *c, const struct field *f, const json_t *v)
{
    return chat_read_list(c, f, v, read_message);
}

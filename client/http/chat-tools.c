/* SPDX-License-Identifier: MIT */
#include "client/http/chat-tools.h"
#include "client/http/chat-messages.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

static int no_memory(struct completion *c)
{
    return fault_of_error(&c->exchange->fault, error_origin(-ENOMEM));
}

/* An empty list is no list. */
static int set_list(struct completion *c, const json_t *list)
{
    struct proto_text *t = &c->request.tools.list;
    proto_text_fini(t);
    if (json_array_size(list) == 0) return 0;
    t->data = json_dumps(list, JSON_COMPACT);
    if (!t->data) return no_memory(c);
    t->len = strlen(t->data);
    return 0;
}

int tools_read_openai(struct completion *c, const struct field *f, const json_t *v)
{
    return json_is_array(v) ? set_list(c, v) : field_wrong(c, f, "a list of tools");
}

/* Only the model itself calls tools. */
static int check_callers(struct completion *c, const json_t *callers, const char *place)
{
    const char *first = json_string_value(json_array_get(callers, 0));
    if (!callers || json_is_null(callers) || (json_is_array(callers) && json_array_size(callers) == 0) ||
        (json_array_size(callers) == 1 && first && strcmp(first, "direct") == 0))
        return 0;
    return fault_set(&c->exchange->fault, 400, place, "%s: 'allowed_callers' must be [\"direct\"]", place);
}

/* Append @tool, in OpenAI's form, to @list. */
static int add_tool(struct completion *c, json_t *list, const json_t *tool, const char *place)
{
    static const char *const known[] = {"name",   "description",           "input_schema",    "type", "cache_control",
                                        "strict", "eager_input_streaming", "allowed_callers", NULL};
    const char *type = json_string_value(json_object_get(tool, "type"));
    json_t *name = json_object_get(tool, "name"), *schema = json_object_get(tool, "input_schema");
    if (!json_is_object(tool)) return fault_set(&c->exchange->fault, 400, place, "%s is not an object", place);
    if (type && strcmp(type, "custom") != 0)
        return fault_set(&c->exchange->fault, 400, place, "%s: tools of the type '%s' are not supported", place, type);
    if (!json_is_string(name) || !json_is_object(schema))
        return fault_set(&c->exchange->fault, 400, place, "%s: 'name' or 'input_schema' is missing", place);
    int r = chat_check_members(c, tool, known, place);
    if (r == 0) r = check_callers(c, json_object_get(tool, "allowed_callers"), place);
    if (r < 0) return r;
    json_t *own = json_pack("{s:s, s:{s:O, s:O*, s:O}}", "type", "function", "function", "name", name, "description",
                            json_object_get(tool, "description"), "parameters", schema);
    return json_array_append_new(list, own) ? no_memory(c) : 0;
}

int tools_read_each(struct completion *c, const struct field *f, const json_t *v, tools_add add)
{
    json_auto_t *list = json_array();
    size_t i;
    json_t *tool;
    if (!json_is_array(v)) return field_wrong(c, f, "a list of tools");
    json_array_foreach((json_t *)v, i, tool)
    {
        char place[32];
        snprintf(place, sizeof(place), "tools[%zu]", i);
        int r = add(c, list, tool, place);
        if (r < 0) return r;
    }
    return set_list(c, list);
}

int tools_read_anthropic(struct completion *c, const struct field *f, const json_t *v)
{
    return tools_read_each(c, f, v, add_tool);
}

/* A call of the tool @name is required. */
static int set_named(struct completion *c, const struct field *f, const json_t *name)
{
    struct proto_tools *t = &c->request.tools;
    if (!json_is_string(name) || json_string_length(name) == 0)
        return field_wrong(c, f, "an object with a tool's name");
    t->choice = PROTO_TOOL_NAMED;
    return proto_text_set(&t->name, json_string_value(name), json_string_length(name)) < 0 ? no_memory(c) : 0;
}

int tool_choice_read_openai(struct completion *c, const struct field *f, const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    enum proto_tool_choice choice = proto_tool_choice_value(json_is_string(v) ? json_string_value(v) : "");
    if (type && strcmp(type, "function") == 0)
        return set_named(c, f, json_object_get(json_object_get(v, "function"), "name"));
    if (choice == PROTO_TOOL_UNSET || choice == PROTO_TOOL_NAMED)
        return field_wrong(c, f, "auto, none, required, or an object of the type function");
    c->request.tools.choice = choice;
    return 0;
}

int tool_choice_read_anthropic(struct completion *c, const struct field *f, const json_t *v)
{
    static const char *const known[] = {"type", "name", "disable_parallel_tool_use", NULL};
    const json_t *type = json_object_get(v, "type");
    const char *name = json_is_string(type) ? json_string_value(type) : "";
    int r = chat_check_members(c, v, known, f->name);
    if (r < 0) return r;
    c->one_call = json_is_true(json_object_get(v, known[2]));
    if (strcmp(name, "tool") == 0) return set_named(c, f, json_object_get(v, "name"));
    if (strcmp(name, "any") == 0)
        c->request.tools.choice = PROTO_TOOL_REQUIRED;
    else if (strcmp(name, "auto") == 0 || strcmp(name, "none") == 0)
        c->request.tools.choice = proto_tool_choice_value(name);
    else
        return field_wrong(c, f, "an object of the type auto, any, tool or none");
    return 0;
}

int tool_parallel_read(struct completion *c, const struct field *f, const json_t *v)
{
    if (!json_is_boolean(v)) return field_wrong(c, f, "true or false");
    c->one_call = json_is_false(v);
    return 0;
}

/* Only a named tool is called exactly once. */
int tools_check(struct completion *c, const char *one_call)
{
    struct proto_tools *t = &c->request.tools;
    bool forced = t->choice == PROTO_TOOL_REQUIRED || t->choice == PROTO_TOOL_NAMED;
    struct fault *f = &c->exchange->fault;
    if (!t->list.len && forced)
        return fault_set(f, 400, "tool_choice", "'tool_choice' requires a call, but 'tools' is missing");
    if (!t->list.len) t->choice = PROTO_TOOL_UNSET;
    if (!t->list.len || !c->one_call || t->choice == PROTO_TOOL_NAMED || t->choice == PROTO_TOOL_NONE) return 0;
    fault_set(f, 400, one_call, "'%s': one call is guaranteed only if 'tool_choice' names a tool", one_call);
    f->code = "unsupported_parameter";
    return -EINVAL;
}

/* SPDX-License-Identifier: MIT */
#include "daemon/output/tool-types.h"
#include <stddef.h>
#include <string.h>

enum { SCHEMA_DEPTH = 8 };

static unsigned named_type(const char *name)
{
    static const struct {
        const char *name;
        unsigned type;
    } types[] = {{"string", TYPE_STRING}, {"number", TYPE_NUMBER}, {"integer", TYPE_NUMBER}, {"boolean", TYPE_BOOLEAN},
                 {"null", TYPE_NULL},     {"array", TYPE_ARRAY},   {"object", TYPE_OBJECT}};
    for (size_t i = 0; name && i < sizeof(types) / sizeof(*types); i++)
        if (strcmp(types[i].name, name) == 0) return types[i].type;
    return TYPE_ANY;
}

static unsigned value_type(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_STRING:
        return TYPE_STRING;
    case JSON_INTEGER:
    case JSON_REAL:
        return TYPE_NUMBER;
    case JSON_TRUE:
    case JSON_FALSE:
        return TYPE_BOOLEAN;
    case JSON_NULL:
        return TYPE_NULL;
    case JSON_ARRAY:
        return TYPE_ARRAY;
    default:
        return TYPE_OBJECT;
    }
}

unsigned type_of_json(char c)
{
    if (c == '"') return TYPE_STRING;
    if (c == '{') return TYPE_OBJECT;
    if (c == '[') return TYPE_ARRAY;
    if (c == 't' || c == 'f') return TYPE_BOOLEAN;
    return c == 'n' ? TYPE_NULL : TYPE_NUMBER;
}

static unsigned schema_types(const json_t *schema, int depth)
{
    const json_t *type = json_object_get(schema, "type"), *list = json_object_get(schema, "enum");
    const json_t *any = json_object_get(schema, "anyOf"), *v;
    unsigned types = 0;
    size_t i;
    if (!any) any = json_object_get(schema, "oneOf");
    if (json_is_string(type)) return named_type(json_string_value(type));
    if (json_array_size(type)) {
        json_array_foreach(type, i, v) types |= named_type(json_string_value(v));
        return types;
    }
    if (json_object_get(schema, "const")) return value_type(json_object_get(schema, "const"));
    if (json_array_size(list)) {
        json_array_foreach(list, i, v) types |= value_type(v);
        return types;
    }
    if (json_array_size(any) == 0 || depth == SCHEMA_DEPTH) return TYPE_ANY;
    json_array_foreach(any, i, v) types |= schema_types(v, depth + 1);
    return types;
}

/* The function of an entry of the list. */
static const json_t *function_of(const json_t *tool)
{
    const json_t *f = json_object_get(tool, "function");
    return f ? f : tool;
}

static const json_t *find(const json_t *tools, const char *name)
{
    const json_t *tool;
    size_t i;
    json_array_foreach(tools, i, tool)
    {
        const char *own = json_string_value(json_object_get(function_of(tool), "name"));
        if (own && strcmp(own, name) == 0) return function_of(tool);
    }
    return NULL;
}

bool tool_exists(const json_t *tools, const char *name)
{
    return find(tools, name) != NULL;
}

unsigned tool_types(const json_t *tools, const char *name, const char *key)
{
    const json_t *f = find(tools, name), *schema = json_object_get(f, "parameters");
    if (!schema) schema = json_object_get(f, "input_schema");
    schema = json_object_get(json_object_get(schema, "properties"), key);
    return schema ? schema_types(schema, 0) : TYPE_ANY;
}

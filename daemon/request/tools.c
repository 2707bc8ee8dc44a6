/* SPDX-License-Identifier: MIT */
#include "daemon/request/tools.h"
#include "daemon/output/tool-types.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/json-whole.h"
#include "libcommon/plain.h"
#include <ctype.h>
#include <string.h>

enum { TOOLS_COUNT_MAX = 1000, PLACE_MAX = 128 };

/* Marks of calls must not be mistaken for a part of a name. */
static bool is_name(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] >= 0x80 || (!isalnum((unsigned char)name[i]) && !strchr("_-.:/", name[i])))
            return false;
    return n > 0 && n <= PROTO_CALL_ID_MAX;
}

/* The object @o has no other keys than @keys. */
static int check_keys(const json_t *o, const char *place, const char *const *keys)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)o, key, value)
    {
        bool known = false;
        char shown[64];
        for (int i = 0; keys[i]; i++) known = known || strcmp(key, keys[i]) == 0;
        if (known) continue;
        shown[plain_into(shown, sizeof(shown) - 1, key, strlen(key))] = '\0';
        return error_say(-EINVAL, "%s: unknown key '%s'", place, shown);
    }
    return 0;
}

static int check_function(const json_t *list, size_t i, const json_t *f, const char *place)
{
    static const char *const keys[] = {"name", "description", "parameters", "strict", NULL};
    const json_t *name = json_object_get(f, "name"), *description = json_object_get(f, "description");
    const json_t *parameters = json_object_get(f, "parameters");
    if (!json_is_object(f)) return error_say(-EINVAL, "%s: must be an object", place);
    int r = check_keys(f, place, keys);
    if (r < 0) return r;
    if (!json_is_string(name) || strlen(json_string_value(name)) != json_string_length(name) ||
        !is_name(json_string_value(name)))
        return error_say(-EINVAL, "%s.name: must be 1 to %d letters, digits and '_', '-', '.', ':', '/'", place,
                         PROTO_CALL_ID_MAX);
    if (description && !json_is_string(description) && !json_is_null(description))
        return error_say(-EINVAL, "%s.description: must be a string", place);
    if (parameters && !json_is_object(parameters) && !json_is_boolean(parameters))
        return error_say(-EINVAL, "%s.parameters: must be a JSON Schema", place);
    for (size_t k = 0; k < i; k++)
        if (strcmp(json_string_value(json_object_get(json_object_get(json_array_get(list, k), "function"), "name")),
                   json_string_value(name)) == 0)
            return error_say(-EINVAL, "%s.name: '%s' is the name of two tools", place, json_string_value(name));
    return 0;
}

static int check_tool(const json_t *list, size_t i)
{
    static const char *const keys[] = {"type", "function", NULL};
    const json_t *tool = json_array_get(list, i), *type = json_object_get(tool, "type");
    char place[PLACE_MAX];
    snprintf(place, sizeof(place), "tools[%zu]", i);
    if (!json_is_object(tool)) return error_say(-EINVAL, "%s: must be an object", place);
    int r = check_keys(tool, place, keys);
    if (r < 0) return r;
    if (!json_is_string(type) || strcmp(json_string_value(type), "function") != 0)
        return error_say(-EINVAL, "%s.type: must be 'function'", place);
    snprintf(place, sizeof(place), "tools[%zu].function", i);
    return check_function(list, i, json_object_get(tool, "function"), place);
}

int tools_parse(json_t **out, const struct proto_tools *t)
{
    json_error_t why;
    json_auto_t *list = NULL;
    int r = json_whole_load(&list, t->list.data, t->list.len, JSON_REJECT_DUPLICATES, &why);
    if (r == -ENOMEM) return r;
    if (r < 0) return error_say(-EINVAL, "tools: not JSON: line %d, column %d: %s", why.line, why.column, why.text);
    if (!json_is_array(list) || json_array_size(list) == 0)
        return error_say(-EINVAL, "tools: must be an array of one or more tools");
    if (json_array_size(list) > TOOLS_COUNT_MAX)
        return error_say(-EINVAL, "tools: has %zu tools, the limit is %d", json_array_size(list), TOOLS_COUNT_MAX);
    for (size_t i = 0; i < json_array_size(list); i++) {
        r = check_tool(list, i);
        if (r < 0) return r;
    }
    if (t->name.len && !tool_exists(list, t->name.data))
        return error_say(-EINVAL, "tool_name: there is no tool '%s'", t->name.data);
    *out = json_incref(list);
    return 0;
}

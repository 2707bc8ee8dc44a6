/* SPDX-License-Identifier: MIT */
#include "daemon/output/tool-types.h"
#include "daemon/request/tool-grammar.h"
#include "daemon/text/schema/schema.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

#define RAW_STATES 1000 /* derivatives that are explored to find that a string has no text */

static int compile(struct grammar_builder *b, const json_t *schema, expr_t *out)
{
    _cleanup_(freep) char *text = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text) return -ENOMEM;
    return schema_expr(b, text, strlen(text), &(struct schema_options){0}, NULL, out);
}

/* The schema of the arguments, which are an object: without one, that of an object without members. The caller owns
 * *out. */
static int parameters_of(json_t **out, const json_t *f)
{
    const json_t *p = json_object_get(f, "parameters"), *type = json_object_get(p, "type");
    json_auto_t *copy = !p                ? json_pack("{s:b}", "additionalProperties", 0)
                        : json_is_true(p) ? json_object()
                                          : json_deep_copy(p);
    if (!copy) return -ENOMEM;
    if (!json_is_object(copy)) return error_say(-EINVAL, "#: no value satisfies the schema");
    if (type && (!json_is_string(type) || strcmp(json_string_value(type), "object") != 0))
        return error_say(-EINVAL, "#/type: arguments must be an object");
    if (json_object_set_new(copy, "type", json_string("object"))) return -ENOMEM;
    *out = json_incref(copy);
    return 0;
}

int tool_arguments_json(struct grammar_builder *b, const json_t *f, expr_t *out)
{
    json_auto_t *p = NULL;
    int r = parameters_of(&p, f);
    return r < 0 ? r : compile(b, p, out);
}

/* --- one by one --- */

/* Arguments that are written one by one are the properties, and nothing else can be said of them. */
static int check_keywords(const json_t *parameters)
{
    static const char *const known[] = {"type",        "properties", "required", "additionalProperties",
                                        "description", "title",      "$schema",  "$defs",
                                        "definitions", "$id",        "$comment", "examples",
                                        "default",     NULL};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)parameters, key, value)
    {
        bool ok = false;
        for (int i = 0; known[i]; i++) ok = ok || strcmp(key, known[i]) == 0;
        if (!ok) return error_say(-ENOTSUP, "#/%s: cannot be enforced in calls as this model writes them", key);
    }
    return 0;
}

/* The schema of property @key, with what it refers to. */
static json_t *property_schema(const json_t *parameters, const char *key)
{
    const json_t *own = json_object_get(json_object_get(parameters, "properties"), key);
    json_auto_t *root = json_deep_copy(parameters);
    char *text = json_dumps(own, JSON_COMPACT | JSON_ENCODE_ANY);
    bool refers = text && strstr(text, "\"$ref\"");
    free(text);
    if (!refers) return json_deep_copy(own);
    if (strpbrk(key, "~/%#") || json_object_set_new(root, "$id", json_string("hob:tool"))) return NULL;
    return json_pack("{s:{s:O}, s:s+}", "$defs", "tool", root, "$ref", "hob:tool#/properties/", key);
}

/* Text without @end. */
static expr_t raw_text(struct grammar_builder *b, const char *end)
{
    static const struct expr_range chars[] = {{1, 0x10ffff}};
    expr_t any = expr_repeat(b, expr_chars(b, chars, 1), 0, EXPR_UNLIMITED);
    while (*end == ' ' || *end == '\n') end++;
    size_t n = strlen(end);
    while (n && (end[n - 1] == ' ' || end[n - 1] == '\n')) n--;
    if (n == 0) return any;
    return expr_and(b, any, expr_not(b, expr_seq(b, (expr_t[]){any, expr_bytes(b, end, n), any}, 3)));
}

/* A string as raw text. */
static int raw_string(struct grammar_builder *b, const json_t *schema, const char *end, expr_t *out)
{
    _cleanup_(freep) char *text = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
    expr_t texts;
    if (!text) return -ENOMEM;
    int r = schema_string_expr(b, text, strlen(text), &texts);
    if (r < 0) return r;
    *out = expr_and(b, raw_text(b, end), texts);
    return expr_is_none(b, *out, RAW_STATES) == 1 ? error_say(-EINVAL, "no value satisfies the schema") : 0;
}

static int value_of(struct grammar_builder *b, const json_t *f, const json_t *parameters, const char *key,
                    const struct tool_argument_form *form, expr_t *out)
{
    json_auto_t *list = json_pack("[O]", f), *schema = property_schema(parameters, key);
    if (!list || !schema) return error_say(-ENOTSUP, "#/properties/%s: the reference cannot be followed", key);
    unsigned types = tool_types(list, json_string_value(json_object_get(f, "name")), key);
    bool raw = form->end && types == TYPE_STRING;
    if (form->end && !raw && (types & TYPE_STRING))
        return error_say(-ENOTSUP,
                         "#/properties/%s: must be a string, or no string, in calls as this model writes them", key);
    int r = raw ? raw_string(b, schema, form->end, out) : compile(b, schema, out);
    if (r < 0 && r != -ENOMEM) return error_in(r, "#/properties/%s", key);
    return r;
}

static bool is_required(const json_t *parameters, const char *key)
{
    const json_t *name;
    size_t i;
    json_array_foreach(json_object_get(parameters, "required"), i,
                       name) if (json_is_string(name) && strcmp(json_string_value(name), key) == 0) return true;
    return false;
}

static int check_required(const json_t *parameters)
{
    const json_t *name, *properties = json_object_get(parameters, "properties");
    size_t i;
    json_array_foreach(
        json_object_get(parameters, "required"), i,
        name) if (!json_is_string(name) ||
                  !json_object_get(properties,
                                   json_string_value(name))) return error_say(-ENOTSUP,
                                                                              "#/required/%zu: names no property", i);
    return 0;
}

/* Arguments in the order of the schema: @first has what may come before any argument, @more what may come after one. */
static int add_arguments(struct grammar_builder *b, const json_t *f, const json_t *parameters,
                         const struct tool_argument_form *form, expr_t *out)
{
    expr_t none = expr_empty(b), some = expr_none(b); /* texts so far: without arguments, and with some */
    const char *key;
    json_t *schema;
    json_object_foreach(json_object_get(parameters, "properties"), key, schema)
    {
        expr_t value;
        int r = value_of(b, f, parameters, key, form, &value);
        if (r < 0) return r;
        expr_t parts[] = {form->open, expr_bytes(b, key, strlen(key)), form->mid, value, form->close};
        expr_t one = expr_seq(b, parts, 5), next = expr_seq(b, (expr_t[]){form->separator, one}, 2);
        expr_t with =
            expr_alt(b, (expr_t[]){expr_seq(b, (expr_t[]){none, one}, 2), expr_seq(b, (expr_t[]){some, next}, 2)}, 2);
        if (is_required(parameters, key)) {
            some = with;
            none = expr_none(b);
        } else {
            some = expr_alt(b, (expr_t[]){some, with}, 2);
        }
    }
    *out = expr_alt(b, (expr_t[]){none, some}, 2);
    return builder_status(b);
}

int tool_arguments_each(struct grammar_builder *b, const json_t *f, const struct tool_argument_form *form, expr_t *out)
{
    json_auto_t *p = NULL;
    int r = parameters_of(&p, f);
    if (r == 0) r = check_keywords(p);
    if (r == 0) r = check_required(p);
    return r < 0 ? r : add_arguments(b, f, p, form, out);
}

/* SPDX-License-Identifier: MIT */
#pragma once
/* The types of arguments, from a request's list of tools (OpenAI's form; the functions alone are accepted too). */
#include <jansson.h>
#include <stdbool.h>

/* JSON types, as bits. */
enum {
    TYPE_STRING = 1,
    TYPE_NUMBER = 2,
    TYPE_BOOLEAN = 4,
    TYPE_NULL = 8,
    TYPE_ARRAY = 16,
    TYPE_OBJECT = 32,
    TYPE_ANY = 63,
};

/* The types that the schema of argument @key of tool @name allows. TYPE_ANY: it does not tell. */
unsigned tool_types(const json_t *tools, const char *name, const char *key);

/* Has the list a tool of this name? */
bool tool_exists(const json_t *tools, const char *name);

/* The type of the JSON value that begins with @c. */
unsigned type_of_json(char c);

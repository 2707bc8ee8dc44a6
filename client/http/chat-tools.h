/* SPDX-License-Identifier: MIT */
#pragma once
/* The fields about tools, of either API. The daemon checks the tools themselves. */
#include "client/http/fields.h"

/* Appends @tool in OpenAI's form to @list; @place names it in messages. 0; negative: sets the fault. */
typedef int (*tools_add)(struct completion *c, json_t *list, const json_t *tool, const char *place);

/* Reads a list of tools in the form that @add knows. */
int tools_read_each(struct completion *c, const struct field *f, const json_t *v, tools_add add);

/* Values of struct field.read. */
int tools_read_openai(struct completion *c, const struct field *f, const json_t *v);
int tools_read_anthropic(struct completion *c, const struct field *f, const json_t *v);
int tool_choice_read_openai(struct completion *c, const struct field *f, const json_t *v);
int tool_choice_read_anthropic(struct completion *c, const struct field *f, const json_t *v);
int tool_parallel_read(struct completion *c, const struct field *f, const json_t *v); /* parallel_tool_calls */

/* All fields are read: refuse those that cannot be honoured together; @one_call is the name of the field that set
 * c->one_call. 0; negative with the fault. */
int tools_check(struct completion *c, const char *one_call);

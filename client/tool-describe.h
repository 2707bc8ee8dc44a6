/* SPDX-License-Identifier: MIT */
#pragma once
/* The description of a tool: an OpenAI function object, or an element of a list of tools that holds one. */
#include "libcommon/buf.h"

#define TOOL_NAME_MAX 64 /* bytes of a tool's name: letters, digits, '_', '-' and '.' */

struct tool_description {
    char *name;
    struct buf json; /* the function object on one line, with the members "name" and "parameters" */
};

/*
 * Read the description in @text, a JSON object with "name", and optionally "description", a string, and "parameters",
 * an object; or an object whose member "function" is such an object. @d is new; call tool_description_fini in any case.
 * 0; -EBADMSG; sets the error message; -ENOMEM.
 */
int tool_describe_read(struct tool_description *d, const char *text, size_t len);
void tool_description_fini(struct tool_description *d);

/* 0; -EBADMSG: not a name; sets the error message. */
int tool_describe_name(const char *name);

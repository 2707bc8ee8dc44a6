/* SPDX-License-Identifier: MIT */
#pragma once
/* The tools that a request offers to the model: executables that hob runs, or a list in a file. */
#include "client/tool-describe.h"
#include <stdbool.h>
#include <stddef.h>

#define TOOL_SET_MAX 128 /* tools */

struct tool {
    char *path; /* the executable */
    struct tool_description about;
    bool always; /* the user lets it run without a question */
};

struct tool_set {
    struct tool *tools; /* [n], owned */
    size_t n;
};

/* Run "@path --describe" and add the tool that it describes. 0; -EINTR; -EEXIST: another one has its name; -EBADMSG;
 * else -errno; sets the error message, which names @path. */
int tool_set_add(struct tool_set *s, const char *path);

/* The tool @name, which stays valid until the next tool_set_add; NULL: none. */
struct tool *tool_set_find(const struct tool_set *s, const char *name);

/* Append the list of all tools, a JSON array as the protocol's key "tools" has it. 0 or -ENOMEM. */
int tool_set_json(const struct tool_set *s, struct buf *out);

void tool_set_fini(struct tool_set *s);

/* Append the list of tools in the file @path, a JSON array. @choice (NULL: none) must be the name of one of them. 0;
 * -EINVAL: not such a list, or no tool @choice; else -errno; sets the error message. */
int tool_set_file(struct buf *out, const char *path, const char *choice);

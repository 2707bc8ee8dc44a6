/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Runs the tools that the model calls, and sends their results, until it answers without a call. The tools are children
 * of hob, in the user's environment. Without a session the messages are sent whole each time; with one only new ones.
 */
#include "client/generate.h"
#include "client/tool-set.h"

struct tool_loop {
    const struct options *opt;
    struct tool_set tools;
    int tty; /* where the user is asked; -1: not opened, or no question is needed */
};

#define TOOL_LOOP_INIT                                                                                                 \
    {                                                                                                                  \
        .tty = -1                                                                                                      \
    }

/* Add the tool @path. 0; -EINVAL: calls need a terminal for questions, or --yes; else as tool_set_add; sets the error
 * message. */
int tool_loop_add(struct tool_loop *l, const char *path);

/* Add the tools of the options. 0, or an exit status; errors are printed. */
int tool_loop_add_all(struct tool_loop *l);

/* Send @r with the tools, and again with the results of the calls. Appends the answers and the results to its messages.
 * Returns the exit status of the last answer. The failure of a tool is a result for the model. */
int tool_loop_run(struct tool_loop *l, struct proto_request *r);
void tool_loop_fini(struct tool_loop *l);

/* All of it, with the tools of the options. Returns the exit status. */
int tool_loop_once(const struct options *o, struct proto_request *r);

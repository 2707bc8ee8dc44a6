/* SPDX-License-Identifier: MIT */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

struct media_program {
    char *const *argv;  /* argv[0]: its path, unless @path is set */
    const char *path;   /* of its file, or NULL */
    char *const *env;   /* all of its environment */
    int in, out, error; /* its standard descriptors, and it gets no others; -1: /dev/null */
    bool own_group;     /* a process group of its own */
};

/* Start a program whose signals have their usual effects and are not blocked. 0 and *pid, or -errno without a message.
 */
int media_spawn(pid_t *pid, const struct media_program *p);

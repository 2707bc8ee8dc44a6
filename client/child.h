/* SPDX-License-Identifier: MIT */
#pragma once
/* Runs a program as a child with its own process group, with limits of time and output. */
#include "libcommon/buf.h"
#include <stdbool.h>
#include <stdint.h>

#define CHILD_ERR_MAX (16u << 10) /* bytes of standard error that are kept */

struct child_limits {
    int64_t ms;   /* time until the process group is killed */
    size_t bytes; /* of standard output; at this size it is closed */
};

struct child_result {
    struct buf out, err; /* standard output and standard error */
    bool cut;            /* standard output exceeded its limit */
    bool late;           /* the time limit ended the child */
    int status;          /* as waitpid sets it */
};

/*
 * Run argv[0], which is searched in PATH if it has no slash, with @input as its standard input, and wait until it has
 * exited. The rest of its process group is then killed. @c is new; call child_result_fini in any case. 0: it ran;
 * -EINTR: an interrupt ended it; else -errno, such as -ENOENT: no such program; sets the error message.
 */
int child_run(struct child_result *c, char *const argv[], const char *input, size_t len, const struct child_limits *l);
void child_result_fini(struct child_result *c);

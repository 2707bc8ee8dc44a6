/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The daemon gives up what it has no use for, so that whoever takes it over through a prompt or a model file has little
 * in hand: no file outside of those named here (landlock, https://docs.kernel.org/userspace-api/landlock.html), no
 * network, no other program, no process but its own (seccomp,
 * https://docs.kernel.org/userspace-api/seccomp_filter.html). It cannot be undone, and threads made later inherit it.
 */
#include <stdbool.h>
#include <stddef.h>

enum confine_how {
    CONFINE_READ,   /* the file, or all below the directory */
    CONFINE_WRITE,  /* below the directory: read, write, make and remove files and directories; a file: read, write */
    CONFINE_LIST,   /* open the directory itself (to sync it) */
    CONFINE_REMOVE, /* remove files in the directory */
};

struct confine_path {
    const char *path; /* links are followed now, not later; what is not there (yet) stays shut. NULL: no path */
    enum confine_how how;
};

struct confine {
    const struct confine_path *paths; /* beside the system's own: libraries, time zones, /proc, /sys */
    size_t n_paths;
};

/*
 * Confine this process, which has one thread yet. Where the kernel has less to offer, less is done: said at debug
 * level when it knows nothing of it, as a warning when it refuses. Does nothing in a program built with sanitizers,
 * which need more than hobd does.
 */
void confine_self(const struct confine *c);

/*
 * Its two halves. 0, or -errno with a sentence: -ENOSYS, -EOPNOTSUPP: the kernel has no such thing. Files first: the
 * calls that confine files are not among those allowed.
 */
int confine_files(const struct confine *c);
int confine_calls(void);

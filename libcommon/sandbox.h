/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The sandbox limits the damage when input takes over a process (a prompt or a model file the daemon, a request the
 * gateway). The process reaches the files
 * named here (landlock, https://docs.kernel.org/userspace-api/landlock.html) and no network, program or process of
 * others (seccomp, https://docs.kernel.org/userspace-api/seccomp_filter.html). A process cannot leave its sandbox, and
 * its later threads inherit it.
 */
#include <stdbool.h>
#include <stddef.h>

enum sandbox_how {
    SANDBOX_READ,   /* the file, or all below the directory */
    SANDBOX_WRITE,  /* below the directory: read, write, make and remove files and directories; a file: read, write */
    SANDBOX_LIST,   /* open the directory itself (to sync it) */
    SANDBOX_REMOVE, /* remove files in the directory */
    SANDBOX_DEVICE, /* a device, or a directory's files: read, write, truncate, ioctl */
};

struct sandbox_path {
    const char *path; /* links are followed now, not later; a path that does not exist yet stays closed. NULL: none */
    enum sandbox_how how;
};

struct sandbox {
    const struct sandbox_path *paths; /* in addition to the system's: libraries, time zones, /proc, /sys */
    size_t n_paths;
    int (*calls)(void); /* the second half: loads the filter of this program; as sandbox_load */
};

/*
 * Put this process, which still has one thread, into the sandbox. A part that this kernel does not have is left out and
 * logged at debug level; a part that fails is logged as a warning. Does nothing in a build with sanitizers, which need
 * more calls.
 */
void sandbox_enter(const struct sandbox *c);

/* Whether this build has sanitizers, which need more calls and memory than a sandbox allows. */
bool sandbox_is_left_out(void);

/*
 * The two halves of the sandbox. 0, or -errno with a message; -ENOSYS, -EOPNOTSUPP: this kernel does not have it. Files
 * come first: the second half refuses the calls of the first.
 */
int sandbox_files(const struct sandbox *c);
/* The same with the rules of a kernel whose landlock has version @newest, for tests. */
int sandbox_files_abi(const struct sandbox *c, long newest);

struct sock_filter;

/* Load the @n rules (sandbox-rules.h) of @program, whose name begins the message when a call ends the process. */
int sandbox_load(const char *program, const struct sock_filter *rules, size_t n);

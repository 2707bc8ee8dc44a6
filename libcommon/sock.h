/* SPDX-License-Identifier: MIT */
#pragma once
/* Unix stream sockets. Returned descriptors are CLOEXEC, and the caller owns them. */
#include <stddef.h>
#include <sys/types.h>

/* Connect to @path (blocking). Returns the descriptor or -errno; -ENAMETOOLONG sets the error message, which has the
 * limit. */
int sock_connect(const char *path);

/* Listen at @path with @mode, non-blocking. The socket of a dead daemon is replaced; for that of a living one the error
 * is -EADDRINUSE. Returns the descriptor or -errno; sets the error message. */
int sock_listen(const char *path, mode_t mode, int backlog);

/* The peer's uid and pid, from the kernel (SO_PEERCRED). */
int sock_peer(int fd, uid_t *uid, pid_t *pid);

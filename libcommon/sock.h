/* SPDX-License-Identifier: MIT */
#pragma once
/* Unix stream sockets. Descriptors returned are CLOEXEC; the caller owns them. */
#include <stddef.h>
#include <sys/types.h>

/* Connect to @path (blocking). Returns the fd or -errno; -ENAMETOOLONG sets the error message, which has the limit. */
int sock_connect(const char *path);

/* Listen at @path with @mode, non-blocking. A socket left there by a dead daemon is replaced; a live one is
 * -EADDRINUSE. Returns the fd or -errno; sets the error message. */
int sock_listen(const char *path, mode_t mode, int backlog);

/* Who is at the other end, in the kernel's word (SO_PEERCRED). */
int sock_peer(int fd, uid_t *uid, pid_t *pid);

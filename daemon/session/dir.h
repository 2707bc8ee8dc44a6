/* SPDX-License-Identifier: MIT */
#pragma once
/* The directory of the session logs: opening and locking it. */
#include <stdbool.h>
#include <sys/types.h>

/* Create, check and lock the directory. 0: *dir and *lock are descriptors, the caller's to close. -errno (message). */
int session_dir_open(int *dir, int *lock, const char *path);

/* Open the directory of a uid. @make: create it if missing. A descriptor, the caller's to close, or -errno (message).
 */
int session_dir_of(int dir, const char *path, uid_t uid, bool make);

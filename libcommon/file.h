/* SPDX-License-Identifier: MIT */
#pragma once
#include <stdint.h>

/* Open the regular file @path for reading. It never waits, as opening a pipe or a terminal could. Returns the
 * descriptor, which the caller closes; -EINVAL: not a regular file; -EFBIG: over @max bytes; else -errno (-ENOENT: no
 * such file). Every error sets the error message. */
int file_open_regular(const char *path, uint64_t max);

/* Open @path for a program that reads it once: a regular file, a terminal, or a pipe (waits for its writer); not a
 * directory, nor a device without an end such as /dev/zero. Returns the descriptor, which the caller closes, or -errno;
 * sets the error message. */
int file_open_once(const char *path);

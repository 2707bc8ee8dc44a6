/* SPDX-License-Identifier: MIT */
#pragma once
#include <stdint.h>

/* Open the regular file @path for reading; never waits, as a pipe or a terminal would make it. Returns the descriptor,
 * which the caller closes; -EINVAL for anything but a regular file, -EFBIG above @max bytes, else -errno (-ENOENT:
 * there is none); each; sets the error message. */
int file_open_regular(const char *path, uint64_t max);

/* Open @path for a program that reads it once: also a pipe, for which it waits as any reader of it does, or a terminal;
 * neither a directory nor a device such as /dev/zero, which has no end. Returns the descriptor, which the caller
 * closes, or -errno; sets the error message. */
int file_open_once(const char *path);

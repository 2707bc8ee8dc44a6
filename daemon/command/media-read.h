/* SPDX-License-Identifier: MIT */
#pragma once
#include "libcommon/buf.h"

/* Append the file @path ("-": standard input) to @in, at most MEDIA_FILE_MAX bytes. 0 or -errno; sets the error
 * message, which begins with @path. */
int media_read_file(const char *path, struct buf *in);

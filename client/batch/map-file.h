/* SPDX-License-Identifier: MIT */
#pragma once
/* The file beside a file of hob map: FILE.out has the answer, whole or not at all. */
#include "libcommon/buf.h"
#include <stdbool.h>

/* May the answer to @name be written? 0; 1: it was, by an earlier run (@resume); -EEXIST; -ENAMETOOLONG; sets the error
 * message. */
int map_file_check(const char *name, bool resume);

/* Write @text, and give it its name when it is complete. 0, or -errno; sets the error message. */
int map_file_write(const char *name, const struct buf *text);

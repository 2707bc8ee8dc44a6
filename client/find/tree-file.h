/* SPDX-License-Identifier: MIT */
#pragma once
/* A file of an indexed folder. */
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define TREE_FILE_MAX (16u << 20) /* most bytes of a file of an index */

/* Read the regular file @path below the folder @root; no symbolic link on the way is followed. On success the caller
 * frees *out. The number of bytes; -EINVAL: it is no regular file; -ELOOP: a link; -EFBIG: over @max bytes; else
 * -errno. No error message is set. */
ssize_t tree_file_read(int root, const char *path, uint64_t max, char **out, struct stat *st);

/* The time of its last change in ns. */
int64_t tree_file_mtime(const struct stat *st);

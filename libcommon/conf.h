/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * `key = value` files: # comments, blank lines; spaces around key and value are removed; the value may be "quoted". If
 * it is CONF_BLOCK, the value is the lines after it up to a line that is CONF_BLOCK, unchanged but for their ends:
 * without the last newline, and without carriage returns before newlines.
 */
#define CONF_BLOCK "\"\"\""

/* Called for each pair. A negative return stops the loop and is passed on, with "FILE:LINE: " prepended to the error
 * message. */
typedef int (*conf_fn)(void *ctx, const char *key, const char *value);

#define CONF_BYTES_MAX (1u << 20) /* maximum size of a file */

/* 0; 1: no such file; -EINVAL: a malformed line (the error message has file and line) or not a regular file; -EFBIG:
 * over CONF_BYTES_MAX; else -errno. */
int conf_read(const char *path, conf_fn fn, void *ctx);

/* The entry of @keys (NULL-terminated) nearest to @key in edit distance, else one that begins with @key or is a prefix
 * of it ("temp" for "temperature"), or NULL. */
const char *conf_nearest(const char *key, const char *const *keys);

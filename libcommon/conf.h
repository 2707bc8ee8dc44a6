/* SPDX-License-Identifier: MIT */
#pragma once
/* `key = value` files: # comments, blank lines, spaces around key and value dropped, the value may be "quoted". */

/* Called for each pair; a negative return stops and is passed on (its message gets "FILE:LINE: " in front). */
typedef int (*conf_fn)(void *ctx, const char *key, const char *value);

#define CONF_BYTES_MAX (1u << 20) /* of a whole file */

/* 0; 1 when there is no such file; -EINVAL with file and line for a malformed line, and for what is not a regular file;
 * -EFBIG over CONF_BYTES_MAX; else -errno. */
int conf_read(const char *path, conf_fn fn, void *ctx);

/* The entry of @keys (NULL-terminated) nearest to @key in edit distance, else one that begins as it does ("temp" for
 * "temperature"), or NULL. */
const char *conf_nearest(const char *key, const char *const *keys);

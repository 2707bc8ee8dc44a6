/* SPDX-License-Identifier: MIT */
#pragma once
/* References between the parts of a document: RFC 3986, section 5. */
#include <stdbool.h>
#include <stddef.h>

/* Resolves @ref[0..n) against @base and cuts its fragment. @out has room for strlen(base) + n + 2 bytes. Returns @out.
 */
char *uri_resolve(char *out, const char *base, const char *ref, size_t n);

/* Undoes percent escapes of s[0..n) into @out[n + 1]; returns the length. */
size_t uri_unescape(char *out, const char *s, size_t n);

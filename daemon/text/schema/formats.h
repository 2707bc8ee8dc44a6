/* SPDX-License-Identifier: MIT */
#pragma once
#include <stddef.h>

struct format {
    const char *name;
    const char *pattern; /* of the whole string, as ECMA 262 writes it; NULL: known but not a regular expression of
                            bearable size */
    const char *other;   /* a second pattern that it may match instead, or NULL */
};

/* The format that the specification calls @name[0..n), or NULL. */
const struct format *format_find(const char *name, size_t n);

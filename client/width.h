/* SPDX-License-Identifier: MIT */
#pragma once
/* What text takes on a terminal. */
#include <stddef.h>

/* The columns that the first character of @s takes on a terminal: 0 (combining), 1 or 2; *@len: its bytes, 1 for what
 * is no UTF-8. @s is not empty. */
unsigned width_first(const char *s, size_t *len);

/* The columns of all of @s. */
unsigned width_columns(const char *s);

/* How much of @s stands in @columns columns, in bytes; *@used (NULL ok): the columns that it takes. */
size_t width_fit(const char *s, unsigned columns, unsigned *used);

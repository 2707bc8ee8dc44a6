/* SPDX-License-Identifier: MIT */
#pragma once
/* Width of text on a terminal. */
#include <stddef.h>

/* Columns of the first character of @s, which is not empty, on a terminal: 0 (combining), 1 or 2. *@len: its bytes; 1
 * for invalid UTF-8. */
unsigned width_first(const char *s, size_t *len);

/* The columns of all of @s. */
unsigned width_columns(const char *s);

/* Bytes of @s that fit into @columns columns; *@used (NULL ok): the columns that they take. */
size_t width_fit(const char *s, unsigned columns, unsigned *used);

/* SPDX-License-Identifier: MIT */
#pragma once
/* Text that others wrote, on its way to a terminal, which would obey what stands in it. */
#include "libcommon/buf.h"

/* Append @text[@n] (whole characters): control characters other than newline, tab, and the carriage return of a line's
 * end become their pictures (U+2400…), those beyond ASCII and what is no UTF-8 U+FFFD. 0 or -ENOMEM. */
int plain_text(struct buf *out, const char *text, size_t n);

/* The columns that the first character of @s takes on a terminal: 0 (combining), 1 or 2; *@len: its bytes, 1 for what
 * is no UTF-8. @s is not empty. */
unsigned plain_width(const char *s, size_t *len);

/* The columns of all of @s. */
unsigned plain_columns(const char *s);

/* How much of @s stands in @columns columns, in bytes; *@used (NULL ok): the columns that it takes. */
size_t plain_fit(const char *s, unsigned columns, unsigned *used);

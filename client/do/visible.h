/* SPDX-License-Identifier: MIT */
#pragma once
/* Whether a command is what a terminal shows of it. */
#include "libcommon/buf.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Whether a terminal may show @cp as something else, as nothing, or as a space: controls, spaces other than ' ',
 * characters of width zero, marks of the writing direction, variation selectors, tags, private and unassigned
 * characters of the blocks that have them (Unicode 15: General_Category Cc, Cf, Zs, Zl, Zp, Co, Cn of these; and
 * Default_Ignorable_Code_Point).
 */
bool visible_hides(uint32_t cp);

/* Offset of the first such character of @text[@n], or of invalid UTF-8; @n: none. */
size_t visible_check(const char *text, size_t n);

/* Append @text, such characters as <U+202E> and invalid bytes as <byte FF>. 0 or -ENOMEM. */
int visible_escape(struct buf *out, const char *text, size_t n);

/* SPDX-License-Identifier: MIT */
#pragma once
/* Marks of a struct markup in a text that arrives in pieces. White space in a mark stands for any white space, also
 * none; white space at its ends is no part of it. */
#include <stdbool.h>
#include <stddef.h>

/* White space that is longer than this is no part of a mark: text that may be a mark stays short. */
enum { MARK_WHITE_MAX = 256 };

enum mark_match {
    MARK_NO,
    MARK_PART, /* the text ends within it */
    MARK_YES,
};

/* Does @text[@len] begin with @mark? MARK_YES: it ends at *end. An empty mark is never found. */
enum mark_match mark_at(const char *mark, const char *text, size_t len, size_t *end);

/* The length of the white space at the beginning of @text; at most MARK_WHITE_MAX + 1. */
size_t mark_white(const char *text, size_t len);

bool mark_is_blank(const char *mark); /* white space or nothing */
bool is_white(char c);                /* white space of marks and JSON */

/* The length of the white space at the end of @mark; and at its beginning. */
size_t mark_white_end(const char *mark);
size_t mark_white_begin(const char *mark);

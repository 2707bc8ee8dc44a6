/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Pieces of rendered text and the marks in them. A group is one mark in brackets: <…> or [WORD…]. Common beginnings and
 * ends of two pieces are cut so that they contain whole groups and whole characters.
 */
#include <stdbool.h>
#include <stddef.h>

struct piece {
    const char *p;
    size_t n;
};

static inline struct piece piece_of(const char *s, size_t from, size_t to)
{
    return (struct piece){s + from, to > from ? to - from : 0};
}

struct piece piece_trim(struct piece a); /* without white space at both ends */
bool piece_is_blank(struct piece a);     /* white space or nothing */
bool piece_ends_with(struct piece a, struct piece end);

/* Offset of the first, or last, @s in @a, or SIZE_MAX. */
size_t piece_find(struct piece a, const char *s);
size_t piece_find_last(struct piece a, const char *s);

/* Lengths of the common beginning, and of the common end. */
size_t piece_common_begin(struct piece a, struct piece b);
size_t piece_common_end(struct piece a, struct piece b);

/* The first, or last, group in @a; of length 0 if there is none. */
struct piece piece_first_group(struct piece a);
struct piece piece_last_group(struct piece a);

/* The end of the group of brackets ({[( …) that begins at @at, an offset; 0: it never ends. Ignores strings. */
size_t piece_bracket_end(struct piece a, size_t at);

/* Replaces *@to, which was allocated or NULL, by a copy. 0 or -ENOMEM. */
int piece_set(char **to, struct piece a);

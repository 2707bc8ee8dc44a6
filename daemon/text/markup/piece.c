/* SPDX-License-Identifier: MIT */
#include "daemon/text/markup/piece.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

struct piece piece_trim(struct piece a)
{
    while (a.n && is_space(*a.p)) a = (struct piece){a.p + 1, a.n - 1};
    while (a.n && is_space(a.p[a.n - 1])) a.n--;
    return a;
}

bool piece_is_blank(struct piece a)
{
    return piece_trim(a).n == 0;
}

bool piece_ends_with(struct piece a, struct piece end)
{
    return a.n >= end.n && memcmp(a.p + a.n - end.n, end.p, end.n) == 0;
}

size_t piece_find(struct piece a, const char *s)
{
    const char *found = memmem(a.p, a.n, s, strlen(s));
    return found ? (size_t)(found - a.p) : SIZE_MAX;
}

size_t piece_find_last(struct piece a, const char *s)
{
    size_t n = strlen(s);
    for (size_t at = a.n >= n ? a.n - n + 1 : 0; at-- > 0;)
        if (memcmp(a.p + at, s, n) == 0) return at;
    return SIZE_MAX;
}

/* The length of the group that begins at @at: 0 if none does, up to the end of @a if it is not closed. */
static size_t group(struct piece a, size_t at)
{
    char open = a.p[at], close = open == '<' ? '>' : ']', next = at + 1 < a.n ? a.p[at + 1] : '\0';
    bool word = (next >= 'A' && next <= 'Z') || (next >= 'a' && next <= 'z') || next == '/' || next == '|' ||
                (unsigned char)next >= 0x80;
    if ((open != '<' && open != '[') || !word) return 0;
    for (size_t i = at + 1; i < a.n; i++)
        if (a.p[i] == close) return i + 1 - at;
    return a.n - at;
}

/* The beginning of the group that @at is inside of, or @at. */
static size_t group_begin(struct piece a, size_t at)
{
    for (size_t i = 0; i < at;) {
        size_t n = group(a, i);
        if (n && i + n > at) return i;
        i += n ? n : 1;
    }
    return at;
}

/* The end of the group that @at is inside of, or @at. */
static size_t group_end(struct piece a, size_t at)
{
    size_t begin = group_begin(a, at);
    return begin < at ? begin + group(a, begin) : at;
}

static bool in_character(struct piece a, size_t at)
{
    return at < a.n && ((unsigned char)a.p[at] & 0xc0) == 0x80;
}

size_t piece_common_begin(struct piece a, struct piece b)
{
    size_t n = 0;
    while (n < a.n && n < b.n && a.p[n] == b.p[n]) n++;
    while (n && (in_character(a, n) || in_character(b, n))) n--;
    size_t in_a = group_begin(a, n), in_b = group_begin(b, n);
    return in_a < in_b ? in_a : in_b;
}

size_t piece_common_end(struct piece a, struct piece b)
{
    size_t n = 0;
    while (n < a.n && n < b.n && a.p[a.n - 1 - n] == b.p[b.n - 1 - n]) n++;
    while (n && in_character(a, a.n - n)) n--;
    size_t in_a = a.n - group_end(a, a.n - n), in_b = b.n - group_end(b, b.n - n);
    return in_a < in_b ? in_a : in_b;
}

struct piece piece_first_group(struct piece a)
{
    for (size_t i = 0; i < a.n; i++) {
        size_t n = group(a, i);
        if (n) return (struct piece){a.p + i, n};
    }
    return (struct piece){a.p, 0};
}

struct piece piece_last_group(struct piece a)
{
    struct piece last = {a.p, 0};
    for (size_t i = 0; i < a.n;) {
        size_t n = group(a, i);
        if (n) last = (struct piece){a.p + i, n};
        i += n ? n : 1;
    }
    return last;
}

size_t piece_bracket_end(struct piece a, size_t at)
{
    size_t depth = 0;
    for (size_t i = at; i < a.n; i++) {
        if (strchr("{[(", a.p[i]) && a.p[i]) depth++;
        if (strchr("}])", a.p[i]) && a.p[i] && --depth == 0) return i + 1;
    }
    return 0;
}

int piece_set(char **to, struct piece a)
{
    char *s = malloc(a.n + 1);
    if (!s) return -ENOMEM;
    memcpy(s, a.p, a.n);
    s[a.n] = '\0';
    free(*to);
    *to = s;
    return 0;
}

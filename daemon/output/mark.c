/* SPDX-License-Identifier: MIT */
#include "daemon/output/mark.h"
#include <string.h>

bool is_white(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

size_t mark_white_begin(const char *mark)
{
    size_t n = 0;
    while (is_white(mark[n])) n++;
    return n;
}

size_t mark_white_end(const char *mark)
{
    size_t len = strlen(mark), n = 0;
    while (n < len && is_white(mark[len - 1 - n])) n++;
    return n;
}

size_t mark_white(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len && n <= MARK_WHITE_MAX && is_white(text[n])) n++;
    return n;
}

bool mark_is_blank(const char *mark)
{
    return mark[mark_white_begin(mark)] == '\0';
}

enum mark_match mark_at(const char *mark, const char *text, size_t len, size_t *end)
{
    size_t i = 0;
    mark += mark_white_begin(mark);
    if (!*mark) return MARK_NO;
    for (; *mark; mark++) {
        if (is_white(*mark)) {
            mark += mark_white_begin(mark);
            if (!*mark) break;
            size_t white = mark_white(text + i, len - i);
            if (white > MARK_WHITE_MAX) return MARK_NO;
            i += white;
        }
        if (i == len) return MARK_PART;
        if (text[i++] != *mark) return MARK_NO;
    }
    *end = i;
    return MARK_YES;
}

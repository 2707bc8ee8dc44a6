/* SPDX-License-Identifier: MIT */
#include "daemon/output/line-limit.h"

bool line_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

bool line_limit_cut(struct line_limit *l, struct buf *text, size_t from)
{
    if (l->left == 0) return false;
    for (size_t i = from; i < text->len; i++) {
        char c = text->data[i];
        if (!line_blank(c)) l->begun = true;
        if (c != '\n' || !l->begun || --l->left > 0) continue;
        text->len = i;
        text->data[i] = '\0';
        return true;
    }
    return false;
}

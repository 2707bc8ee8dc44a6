/* SPDX-License-Identifier: MIT */
#include "client/templates/parts.h"
#include "client/templates/templates.h"
#include <string.h>

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Bytes of the variable at @s, which begins with a brace: its braces and its name. 0: none. */
static size_t variable(const char *s)
{
    size_t n = 1;
    if (is_digit(s[1])) {
        while (is_digit(s[n])) n++;
    } else if (is_letter(s[1])) {
        while (is_letter(s[n]) || is_digit(s[n]) || s[n] == '-') n++;
    }
    return n > 1 && n <= TEMPLATE_NAME_MAX && s[n] == '}' ? n + 1 : 0;
}

static enum template_kind kind_of(const char *name, size_t len)
{
    if (is_digit(*name)) return TEMPLATE_WORD;
    return len == 5 && memcmp(name, "input", 5) == 0 ? TEMPLATE_INPUT : TEMPLATE_NAMED;
}

size_t template_part(const char *text, struct template_part *p)
{
    size_t n = *text == '{' ? variable(text) : 0;
    if (n) {
        *p = (struct template_part){kind_of(text + 1, n - 2), text + 1, n - 2};
        return n;
    }
    n = *text == '{' && text[1] == '{' ? variable(text + 1) : 0;
    if (n && text[1 + n] == '}') {
        *p = (struct template_part){TEMPLATE_TEXT, text + 1, n};
        return n + 2;
    }
    n = 1 + strcspn(text + 1, "{");
    *p = (struct template_part){TEMPLATE_TEXT, text, n};
    return n;
}

bool template_is_name(const char *name, size_t len)
{
    if (!len || len >= TEMPLATE_NAME_MAX || !is_letter(*name) || kind_of(name, len) != TEMPLATE_NAMED) return false;
    for (size_t i = 0; i < len; i++)
        if (!is_letter(name[i]) && !is_digit(name[i]) && name[i] != '-') return false;
    return true;
}

bool template_takes_input(const char *text)
{
    struct template_part p;
    while (*text) {
        text += template_part(text, &p);
        if (p.kind == TEMPLATE_INPUT) return true;
    }
    return false;
}

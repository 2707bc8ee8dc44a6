/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/pattern.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <string.h>

static bool add_set(struct char_class *c, const struct expr_range *r, size_t n)
{
    bool ok = true;
    for (size_t i = 0; i < n; i++) ok = ok && class_add(c, r[i].first, r[i].last);
    return ok;
}

bool pattern_set(char name, struct char_class *out)
{
    static const struct expr_range digits[] = {{'0', '9'}}, words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                                   spaces[] = {{0x09, 0x0D},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                                               {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                               {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    out->n = 0;
    switch (name | 0x20) {
    case 'd':
        add_set(out, digits, 1);
        break;
    case 'w':
        add_set(out, words, 4);
        break;
    case 's':
        add_set(out, spaces, sizeof(spaces) / sizeof(spaces[0]));
        break;
    default:
        return false;
    }
    return name & 0x20 || class_invert(out);
}

/* @digits hexadecimal digits, or with 0 as many as stand before '}'. */
static bool hex(const char *text, size_t n, size_t *at, unsigned digits, uint32_t *out)
{
    *out = 0;
    unsigned read = 0;
    for (; *at < n && (digits == 0 || read < digits); ++*at, read++) {
        char c = text[*at];
        uint32_t d = c >= '0' && c <= '9'                     ? (uint32_t)(c - '0')
                     : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (uint32_t)((c | 0x20) - 'a' + 10)
                                                              : 16;
        if (d == 16) break;
        *out = *out << 4 | d;
        if (*out > 0x10FFFF) return false;
    }
    return read > 0 && (digits == 0 || read == digits);
}

/* The code point after \u. A pair of surrogates is one character. */
static bool unicode(const char *text, size_t n, size_t *at, uint32_t *out)
{
    if (*at < n && text[*at] == '{') {
        ++*at;
        return hex(text, n, at, 0, out) && *at < n && text[(*at)++] == '}';
    }
    if (!hex(text, n, at, 4, out)) return false;
    if (*out >= 0xD800 && *out <= 0xDBFF && *at + 1 < n && text[*at] == '\\' && text[*at + 1] == 'u') {
        uint32_t low;
        size_t next = *at + 2;
        if (!hex(text, n, &next, 4, &low) || low < 0xDC00 || low > 0xDFFF) return false;
        *out = 0x10000 + ((*out - 0xD800) << 10) + (low - 0xDC00);
        *at = next;
    }
    return *out < 0xD800 || *out > 0xDFFF;
}

static bool control(const char *text, size_t n, size_t *at, uint32_t *out)
{
    char c = *at < n ? (char)(text[*at] | 0x20) : 0;
    *out = (uint32_t)(text[*at < n ? *at : 0] & 0x1F);
    ++*at;
    return c >= 'a' && c <= 'z';
}

int pattern_escape(const char *text, size_t n, size_t *at, struct char_class *out)
{
    out->n = 0;
    if (*at >= n) return error_say(-EBADMSG, "a backslash at the end of a pattern");
    char c = text[(*at)++];
    if (strchr("dDwWsS", c) && c) return pattern_set(c, out) ? 0 : -EBADMSG;
    static const char names[] = "nrtvf", means[] = "\n\r\t\v\f";
    const char *p = c ? strchr(names, c) : NULL;
    uint32_t code = (unsigned char)c;
    bool ok = true, letter = ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    if (p)
        code = (uint32_t)means[p - names];
    else if (c == 'x')
        ok = hex(text, n, at, 2, &code);
    else if (c == 'u')
        ok = unicode(text, n, at, &code);
    else if (c == 'c')
        ok = control(text, n, at, &code);
    else if (c == '0' && (*at >= n || text[*at] < '0' || text[*at] > '9'))
        code = 0;
    else if (letter || (c >= '0' && c <= '9'))
        return error_say(-ENOTSUP, "the escape \\%c in a pattern", c);
    else if ((unsigned char)c >= 0x80) {
        size_t len = utf8_decode(text + *at - 1, n - *at + 1, &code);
        *at += len ? len - 1 : 0;
        ok = len > 0;
    }
    if (!ok || !class_add(out, code, code)) return error_say(-EBADMSG, "a bad escape \\%c in a pattern", c);
    return 0;
}

/* One member of a class: a character, or a set such as \d. */
static int member(const char *text, size_t n, size_t *at, struct char_class *out)
{
    if (text[*at] == '\\') {
        ++*at;
        if (*at < n && text[*at] == 'b') { /* backspace, in a class only */
            ++*at;
            out->n = 0;
            return class_add(out, '\b', '\b') ? 0 : -EBADMSG;
        }
        return pattern_escape(text, n, at, out);
    }
    uint32_t c;
    size_t len = utf8_decode(text + *at, n - *at, &c);
    if (len == 0) return error_say(-EBADMSG, "a pattern that is not UTF-8");
    *at += len;
    out->n = 0;
    return class_add(out, c, c) ? 0 : -EBADMSG;
}

static bool one(const struct char_class *c)
{
    return c->n == 1 && c->range[0].first == c->range[0].last;
}

int pattern_class(const char *text, size_t n, size_t *at, struct char_class *out)
{
    out->n = 0;
    bool inverted = *at < n && text[*at] == '^', ok = true;
    if (inverted) ++*at;
    while (ok && *at < n && text[*at] != ']') {
        struct char_class from, to;
        int r = member(text, n, at, &from);
        if (r < 0) return r;
        if (*at + 1 < n && text[*at] == '-' && text[*at + 1] != ']') {
            size_t dash = (*at)++;
            if ((r = member(text, n, at, &to)) < 0) return r;
            if (one(&from) && one(&to)) {
                if (to.range[0].first < from.range[0].first)
                    return error_say(-EBADMSG, "a range of a pattern's class goes down");
                ok = class_add(out, from.range[0].first, to.range[0].first);
                continue;
            }
            *at = dash + 1; /* beside a set such as \d the dash is a character */
            ok = class_add(out, '-', '-');
        }
        ok = ok && class_add_class(out, &from);
    }
    if (*at >= n) return error_say(-EBADMSG, "a class without ']' in a pattern");
    ++*at;
    if (!ok || (inverted && !class_invert(out))) return error_say(-E2BIG, "a class of too many ranges in a pattern");
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* Characters, escapes and classes of regular expressions. */
#include "daemon/text/grammar/regex-syntax-inside.h"
#include "libcommon/utf8.h"
#include <stdlib.h>
#include <string.h>

/* Named classes, by pairs of first and last character. */
static const struct {
    const char *name, *pairs;
} classes[] = {
    {"alnum", "09AZaz"}, {"alpha", "AZaz"},   {"ascii", "\1\x7f"},  {"blank", "  \t\t"},  {"cntrl", "\1\x1f\x7f\x7f"},
    {"digit", "09"},     {"graph", "!~"},     {"lower", "az"},      {"print", " ~"},      {"punct", "!/:@[`{~"},
    {"space", "\t\r  "}, {"upper", "AZ"},     {"word", "09AZaz__"}, {"xdigit", "09AFaf"}, {"d", "09"},
    {"w", "09AZaz__"},   {"s", "\t\n\f\r  "},
};

/* Adds a class, or all characters that are not in it. False: there is no such class. */
static bool add_named(struct range_list *l, const char *name, size_t len, bool others, int *r)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (strlen(classes[i].name) != len || memcmp(classes[i].name, name, len) != 0) continue;
        struct range_list one = {0};
        for (const char *c = classes[i].pairs; *c && *r == 0; c += 2)
            *r = range_list_push(&one, *c == 1 ? 0 : (uint8_t)c[0], (uint8_t)c[1]);
        if (*r == 0 && others) *r = range_list_complement(&one);
        for (size_t k = 0; k < one.n && *r == 0; k++) *r = range_list_push(l, one.v[k].first, one.v[k].last);
        free(one.v);
        return true;
    }
    return false;
}

/* \d \w \s and their opposites, if they stand at the place. */
static bool add_escaped_class(struct regex_parser *p, struct range_list *l, int *r)
{
    char c = regex_peek(p, 1), lower = (char)(c | 0x20);
    if (regex_peek(p, 0) != '\\' || !c || !strchr("dwsDWS", c)) return false;
    p->at += 2;
    return add_named(l, &lower, 1, c != lower, r);
}

/* The ranges and, with (?i), the other case of their letters. */
static int fold(struct regex_parser *p, struct range_list *l, size_t at)
{
    if (!p->fold) return 0;
    size_t n = l->n;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        if (l->v[i].last > 0x7f) return regex_error(p, at, "(?i) is for ASCII characters only");
        for (uint32_t c = l->v[i].first; c <= l->v[i].last && r == 0; c++)
            if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') r = range_list_push(l, c ^ 0x20, c ^ 0x20);
    }
    return r;
}

int regex_char(struct regex_parser *p, uint32_t cp, size_t at, expr_t *e)
{
    struct range_list l = {0};
    int r = range_list_push(&l, cp, cp);
    if (r == 0) r = fold(p, &l, at);
    if (r == 0) *e = expr_chars(p->b, l.v, l.n);
    free(l.v);
    return r;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* \x41 or \x{1F600}; the place is behind the x. */
static int hex(struct regex_parser *p, size_t begin, uint32_t *cp)
{
    bool braces = regex_peek(p, 0) == '{';
    size_t n = 0;
    *cp = 0;
    p->at += braces;
    for (int d; n < (braces ? 8 : 2) && (d = digit_of(regex_peek(p, 0))) >= 0; n++, p->at++)
        *cp = *cp << 4 | (uint32_t)d;
    if (n == 0 || (!braces && n < 2) || (braces && regex_peek(p, 0) != '}'))
        return regex_error(p, begin, "the escape is \\xHH or \\x{H...}");
    p->at += braces;
    if (*cp > 0x10ffff || (*cp >= 0xd800 && *cp <= 0xdfff)) return regex_error(p, begin, "the escape is no character");
    return 0;
}

static int refuse_escape(const struct regex_parser *p, size_t begin, char c)
{
    if (c >= '1' && c <= '9') return regex_error(p, begin, "a back reference, \\%c, is not supported", c);
    if (c == 'k') return regex_error(p, begin, "a back reference, \\k, is not supported");
    if (c == 'b' || c == 'B') return regex_error(p, begin, "a word boundary, \\%c, is not supported", c);
    if (c == 'p' || c == 'P') return regex_error(p, begin, "a Unicode class, \\%c, is not supported", c);
    if (c == 0) return regex_error(p, begin, "'\\' stands at the end");
    return regex_error(p, begin, "the escape \\%c is not supported", c);
}

/* An escaped character. */
static int escaped(struct regex_parser *p, uint32_t *cp)
{
    static const char names[] = "ntrfva", values[] = "\n\t\r\f\v\a";
    size_t begin = p->at;
    char c = regex_peek(p, 1);
    const char *found = c ? strchr(names, c) : NULL;
    p->at += 2;
    *cp = (uint8_t)c;
    if (found) *cp = (uint8_t)values[found - names];
    if (c == 'x') return hex(p, begin, cp);
    if (c == '0') {
        *cp = 0;
        for (int i = 0; i < 2 && regex_peek(p, 0) >= '0' && regex_peek(p, 0) <= '7'; i++)
            *cp = *cp << 3 | (uint32_t)(p->s[p->at++] - '0');
        return 0;
    }
    bool punctuation = c > ' ' && c < 0x7f && !(digit_of(c) >= 0) && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    return found || punctuation ? 0 : refuse_escape(p, begin, c);
}

int regex_escape(struct regex_parser *p, expr_t *e)
{
    size_t begin = p->at;
    struct range_list l = {0};
    uint32_t cp;
    int r = 0;
    if (add_escaped_class(p, &l, &r)) {
        if (r == 0) *e = expr_chars(p->b, l.v, l.n);
        free(l.v);
        return r;
    }
    r = escaped(p, &cp);
    return r < 0 ? r : regex_char(p, cp, begin, e);
}

/* One end of a range. */
static int class_char(struct regex_parser *p, uint32_t *cp)
{
    if (regex_peek(p, 0) == '\\') return escaped(p, cp);
    p->at += utf8_decode(p->s + p->at, p->n - p->at, cp);
    return 0;
}

/* [:alpha:] or [:^alpha:], if it stands at the place. */
static bool add_posix(struct regex_parser *p, struct range_list *l, int *r)
{
    if (regex_peek(p, 0) != '[' || regex_peek(p, 1) != ':') return false;
    const char *name = p->s + p->at + 2, *end = memchr(name, ':', p->n - p->at - 2);
    if (!end || end + 1 == p->s + p->n || end[1] != ']') return false;
    bool others = *name == '^';
    name += others;
    size_t len = (size_t)(end - name);
    bool cases = p->fold && len == 5 && (!memcmp(name, "lower", len) || !memcmp(name, "upper", len));
    if (!add_named(l, cases ? "alpha" : name, len, others, r) || len < 2)
        *r = regex_error(p, p->at, "no class has the name '%.*s'", (int)(end - name), name);
    p->at = (size_t)(end + 2 - p->s);
    return true;
}

/* A named class, a character or a range inside brackets. */
static int class_item(struct regex_parser *p, struct range_list *l)
{
    uint32_t first, last;
    size_t begin = p->at;
    int r = 0;
    if (add_posix(p, l, &r) || add_escaped_class(p, l, &r)) return r;
    r = class_char(p, &first);
    last = first;
    if (r == 0 && regex_peek(p, 0) == '-' && regex_peek(p, 1) && regex_peek(p, 1) != ']') {
        p->at++;
        r = class_char(p, &last);
        if (r == 0 && last < first) r = regex_error(p, begin, "the range ends before it begins");
    }
    struct range_list one = {0};
    if (r == 0) r = range_list_push(&one, first, last);
    if (r == 0) r = fold(p, &one, begin);
    for (size_t i = 0; i < one.n && r == 0; i++) r = range_list_push(l, one.v[i].first, one.v[i].last);
    free(one.v);
    return r;
}

int regex_class(struct regex_parser *p, expr_t *e)
{
    size_t begin = p->at++;
    struct range_list l = {0};
    bool others = regex_peek(p, 0) == '^';
    int r = 0;
    p->at += others;
    do r = p->at < p->n ? class_item(p, &l) : regex_error(p, begin, "the class has no end");
    while (r == 0 && regex_peek(p, 0) != ']');
    p->at++;
    if (r == 0 && others) r = range_list_complement(&l);
    if (r == 0) *e = expr_chars(p->b, l.v, l.n);
    free(l.v);
    return r;
}

/* SPDX-License-Identifier: MIT */
/* Alternatives, sequences, repetitions and groups of regular expressions. */
#include "daemon/text/grammar/regex-syntax.h"
#include "daemon/text/grammar/regex-syntax-inside.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 200 /* nested groups */

int regex_error(const struct regex_parser *p, size_t at, const char *fmt, ...)
{
    char text[256];
    size_t number = 1;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    for (size_t i = 0; i < at && i < p->n; i++) number += (p->s[i] & 0xc0) != 0x80;
    return error_say(-EINVAL, "character %zu: %s", number, text);
}

static int alternatives(struct regex_parser *p, expr_t *e);

/* The flags of (?i) or (?i:...), up to the ')' or ':'. */
static int flags(struct regex_parser *p, size_t begin)
{
    bool on = true;
    for (char c; (c = regex_peek(p, 0)) != ')' && c != ':'; p->at++) {
        if (c == '-' && on)
            on = false;
        else if (c == 'i')
            p->fold = on;
        else if (c == 's')
            p->dot_all = on;
        else if (c == 'm' && on)
            return regex_error(p, begin, "(?m), anchors of lines, is not supported");
        else if (c != 'U' && c != 'm')
            return regex_error(p, begin, "a group begins with (?: or (?P<name> or flags of i, s, U");
    }
    return 0;
}

/* What stands between '(' and the group's expression. 1: the flags have no group. */
static int group_head(struct regex_parser *p, size_t begin)
{
    if (regex_peek(p, 0) != '?') return 0;
    p->at++;
    char c = regex_peek(p, 0), next = regex_peek(p, 1);
    if (c == '=' || c == '!' || (c == '<' && (next == '=' || next == '!')))
        return regex_error(p, begin, "look-around is not supported");
    if (c == '>') return regex_error(p, begin, "an atomic group is not supported");
    if (c == 'P' && (next == '=' || next == '>'))
        return regex_error(p, begin, "a reference to a group is not supported");
    if (c == '<' || (c == 'P' && next == '<')) {
        const char *end = memchr(p->s + p->at, '>', p->n - p->at);
        if (!end) return regex_error(p, begin, "the name of the group has no end");
        p->at = (size_t)(end + 1 - p->s);
        return 0;
    }
    int r = flags(p, begin);
    if (r < 0) return r;
    bool alone = regex_peek(p, 0) == ')';
    p->at++;
    return alone;
}

static int group(struct regex_parser *p, expr_t *e)
{
    size_t begin = p->at++;
    bool fold = p->fold, dot_all = p->dot_all;
    if (p->depth == DEPTH_MAX) return regex_error(p, begin, "more than %d nested groups", DEPTH_MAX);
    int r = group_head(p, begin);
    if (r < 0) return r;
    *e = expr_empty(p->b);
    if (r == 1) return 0;
    p->depth++;
    r = alternatives(p, e);
    p->depth--;
    p->fold = fold;
    p->dot_all = dot_all;
    if (r == 0 && regex_peek(p, 0) != ')') r = regex_error(p, begin, "the group has no end");
    p->at++;
    return r;
}

/* \Q...\E. The last character is *e, to which a repetition belongs; those before it become parts of the sequence. */
static int quoted(struct regex_parser *p, struct expr_list *parts, expr_t *e)
{
    size_t begin = p->at;
    int r = 0;
    bool empty = true;
    p->at += 2;
    for (; r == 0 && p->at < p->n && !(regex_peek(p, 0) == '\\' && regex_peek(p, 1) == 'E'); empty = false) {
        uint32_t cp;
        size_t at = p->at;
        if (!empty) {
            p->begun = true;
            r = expr_list_push(parts, *e);
        }
        p->at += utf8_decode(p->s + p->at, p->n - p->at, &cp);
        if (r == 0) r = regex_char(p, cp, at, e);
    }
    if (p->at < p->n) p->at += 2;
    if (r < 0 || !empty) return r;
    *e = expr_empty(p->b);
    char c = regex_peek(p, 0);
    return c && strchr("*+?{", c) ? regex_error(p, begin, "the repetition of an empty quotation is not supported") : 0;
}

static int any(struct regex_parser *p, expr_t *e)
{
    static const struct expr_range all[] = {{0, '\n' - 1}, {'\n' + 1, 0x10ffff}, {'\n', '\n'}};
    p->at++;
    *e = expr_chars(p->b, all, p->dot_all ? 3 : 2);
    return 0;
}

/* An anchor at the place: 1, and it is read; 0: there is none. */
static int anchor(struct regex_parser *p)
{
    char c = regex_peek(p, 0), next = regex_peek(p, 1);
    bool begin = c == '^' || (c == '\\' && next == 'A'), end = c == '$' || (c == '\\' && (next == 'z' || next == 'Z'));
    if (!begin && !end) return 0;
    if (begin && p->begun) return regex_error(p, p->at, "an anchor inside the expression is not supported");
    p->at += c == '\\' ? 2 : 1;
    p->ended |= end;
    p->anchors++;
    return 1;
}

static bool number(struct regex_parser *p, size_t *at, uint32_t *v)
{
    size_t begin = *at;
    *v = 0;
    for (; *at < p->n && p->s[*at] >= '0' && p->s[*at] <= '9'; ++*at)
        if (*v <= EXPR_REPEAT_MAX) *v = *v * 10 + (uint32_t)(p->s[*at] - '0');
    return *at > begin;
}

/* {m}, {m,} or {m,n}; a brace that is none of these is a character. */
static bool counts(struct regex_parser *p, uint32_t *min, uint32_t *max)
{
    size_t at = p->at + 1;
    if (!number(p, &at, min)) return false;
    *max = *min;
    if (at < p->n && p->s[at] == ',') {
        at++;
        if (!number(p, &at, max)) *max = EXPR_UNLIMITED;
    }
    if (at >= p->n || p->s[at] != '}') return false;
    p->at = at + 1;
    return true;
}

/* @parts: the sequence so far. */
static int atom(struct regex_parser *p, struct expr_list *parts, expr_t *e)
{
    uint32_t cp, min, max;
    size_t at = p->at;
    char c = regex_peek(p, 0);
    if (p->ended) return regex_error(p, at, "an anchor inside the expression is not supported");
    if (c == '(') return group(p, e);
    if (c == '[') return regex_class(p, e);
    if (c == '.') return any(p, e);
    if (c == '*' || c == '+' || c == '?' || (c == '{' && counts(p, &min, &max)))
        return regex_error(p, at, "nothing stands before '%c'", c);
    if (c == '\\') return regex_peek(p, 1) == 'Q' ? quoted(p, parts, e) : regex_escape(p, e);
    p->at += utf8_decode(p->s + at, p->n - at, &cp);
    return regex_char(p, cp, at, e);
}

static int repetition(struct regex_parser *p, unsigned anchors, expr_t *e)
{
    size_t begin = p->at;
    uint32_t min = 0, max = EXPR_UNLIMITED;
    char c = regex_peek(p, 0);
    if (c == '{') {
        if (!counts(p, &min, &max)) return 0;
        if (min > EXPR_REPEAT_MAX || (max > EXPR_REPEAT_MAX && max != EXPR_UNLIMITED))
            return regex_error(p, begin, "more than %u repetitions", EXPR_REPEAT_MAX);
        if (max < min) return regex_error(p, begin, "the most repetitions are fewer than the least");
    } else if (c == '*' || c == '+' || c == '?') {
        p->at++;
        min = c == '+';
        if (c == '?') max = 1;
    } else {
        return 0;
    }
    if (p->anchors != anchors) return regex_error(p, begin, "the repetition of an anchor is not supported");
    *e = expr_repeat(p->b, *e, min, max);
    if (regex_peek(p, 0) == '?') p->at++;
    c = regex_peek(p, 0);
    size_t at = p->at;
    if (c == '+' && at == begin + 1) return regex_error(p, at, "a possessive repetition is not supported");
    if (c == '*' || c == '+' || c == '?') return regex_error(p, at, "a repetition of a repetition needs a group");
    return 0;
}

static int sequence(struct regex_parser *p, expr_t *e)
{
    struct expr_list parts = {0};
    int r = 0;
    while (r >= 0 && p->at < p->n && regex_peek(p, 0) != '|' && regex_peek(p, 0) != ')') {
        expr_t one;
        unsigned anchors = p->anchors;
        r = anchor(p);
        if (r) continue;
        r = atom(p, &parts, &one);
        if (r == 0) r = repetition(p, anchors, &one);
        if (r == 0) p->begun |= one != expr_empty(p->b);
        if (r == 0) r = expr_list_push(&parts, one);
    }
    if (r >= 0) *e = expr_seq(p->b, parts.e, parts.n);
    free(parts.e);
    return r < 0 ? r : 0;
}

static int alternatives(struct regex_parser *p, expr_t *e)
{
    struct expr_list parts = {0};
    bool begun = p->begun, any_begun = false, any_ended = false;
    int r;
    for (;;) {
        expr_t one;
        p->begun = begun;
        p->ended = false;
        r = sequence(p, &one);
        if (r == 0) r = expr_list_push(&parts, one);
        any_begun |= p->begun;
        any_ended |= p->ended;
        if (r < 0 || regex_peek(p, 0) != '|') break;
        p->at++;
    }
    p->begun = any_begun;
    p->ended = any_ended;
    if (r == 0) *e = expr_alt(p->b, parts.e, parts.n);
    free(parts.e);
    return r;
}

int regex_parse(struct grammar_builder *b, const char *s, size_t n, expr_t *out)
{
    struct regex_parser p = {.b = b, .s = s, .n = n};
    if (utf8_check(s, n) < n) return regex_error(&p, utf8_check(s, n), "invalid UTF-8");
    if (memchr(s, 0, n)) return regex_error(&p, strlen(s), "a NUL byte");
    int r = alternatives(&p, out);
    if (r == 0 && p.at < n) r = regex_error(&p, p.at, "')' without its '('");
    return r < 0 ? r : builder_status(b);
}

/* SPDX-License-Identifier: MIT */
/* The atoms of GBNF: literals, classes, tokens, counts. */
#include "daemon/text/grammar/gbnf-inside.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <stdlib.h>
#include <string.h>

void gbnf_space(struct gbnf *p, bool lines)
{
    for (;; p->at++) {
        char c = gbnf_peek(p);
        if (c == '#')
            while (p->at + 1 < p->n && p->s[p->at + 1] != '\n' && p->s[p->at + 1] != '\r') p->at++;
        else if (c != ' ' && c != '\t' && !(lines && (c == '\n' || c == '\r')))
            return;
    }
}

static int hex_digits(struct gbnf *p, unsigned n, uint32_t *cp)
{
    size_t begin = p->at - 2;
    *cp = 0;
    for (unsigned i = 0; i < n; i++) {
        char c = gbnf_peek(p), lower = (char)(c | 0x20);
        bool decimal = c >= '0' && c <= '9';
        if (!decimal && (lower < 'a' || lower > 'f'))
            return gbnf_error(p, begin, "an escape needs %u hexadecimal digits", n);
        *cp = *cp << 4 | (uint32_t)(decimal ? c - '0' : lower - 'a' + 10);
        p->at++;
    }
    if (*cp > 0x10ffff || (*cp >= 0xd800 && *cp <= 0xdfff)) return gbnf_error(p, begin, "the escape is no character");
    return 0;
}

/* A character of a literal or class, escaped or not. */
static int character(struct gbnf *p, uint32_t *cp)
{
    if (gbnf_peek(p) != '\\') {
        p->at += utf8_decode(p->s + p->at, p->n - p->at, cp);
        return 0;
    }
    p->at += 2;
    switch (p->at <= p->n ? p->s[p->at - 1] : 0) {
    case 'x':
        return hex_digits(p, 2, cp);
    case 'u':
        return hex_digits(p, 4, cp);
    case 'U':
        return hex_digits(p, 8, cp);
    case 't':
        *cp = '\t';
        return 0;
    case 'r':
        *cp = '\r';
        return 0;
    case 'n':
        *cp = '\n';
        return 0;
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
        *cp = (uint8_t)p->s[p->at - 1];
        return 0;
    }
    return gbnf_error(p, p->at - 2, "an unknown escape");
}

int gbnf_literal(struct gbnf *p, expr_t *e)
{
    size_t begin = p->at++;
    struct expr_list parts = {0};
    int r = 0;
    while (r == 0 && gbnf_peek(p) != '"') {
        uint32_t cp;
        char c[4];
        if (p->at >= p->n)
            r = gbnf_error(p, begin, "the literal has no end");
        else
            r = character(p, &cp);
        if (r == 0) r = expr_list_push(&parts, expr_bytes(p->b, c, utf8_encode(c, cp)));
    }
    p->at++;
    if (r == 0) *e = expr_seq(p->b, parts.e, parts.n);
    free(parts.e);
    return r;
}

static int read_range(struct gbnf *p, struct expr_range *v)
{
    size_t at = p->at;
    int r = character(p, &v->first);
    v->last = v->first;
    if (r < 0 || gbnf_peek(p) != '-' || p->at + 1 >= p->n || p->s[p->at + 1] == ']') return r;
    p->at++;
    r = character(p, &v->last);
    if (r == 0 && v->last < v->first) r = gbnf_error(p, at, "the range ends before it begins");
    return r;
}

int gbnf_class(struct gbnf *p, expr_t *e)
{
    size_t begin = p->at++;
    struct range_list ranges = {0};
    int r = 0;
    bool others = gbnf_peek(p) == '^';
    p->at += others;
    while (r == 0 && gbnf_peek(p) != ']') {
        struct expr_range one;
        r = p->at < p->n ? read_range(p, &one) : gbnf_error(p, begin, "the class has no end");
        if (r == 0) r = range_list_push(&ranges, one.first, one.last);
    }
    if (r == 0 && ranges.n == 0) r = gbnf_error(p, begin, "the class is empty");
    p->at++;
    if (r == 0 && others) r = range_list_complement(&ranges);
    if (r == 0) *e = expr_chars(p->b, ranges.v, ranges.n);
    free(ranges.v);
    return r;
}

/* The one token that @s [@n] is. */
static int token_of(struct gbnf *p, size_t begin, size_t end, int32_t *id)
{
    struct text text = {0};
    struct tokens ids = {0};
    int r = text_append(&text, p->s + begin, end - begin, true);
    if (r == 0) r = tokenizer_encode(p->t, &text, 0, false, &ids);
    if (r == 0 && ids.n != 1)
        r = gbnf_error(p, begin, "'%.*s' is not one token of the model, but %zu", (int)(end - begin), p->s + begin,
                       ids.n);
    if (r == 0) *id = ids.ids[0];
    tokens_fini(&ids);
    text_fini(&text);
    return r;
}

static int token_by_id(struct gbnf *p, size_t begin, size_t end, int32_t *id)
{
    uint64_t v = 0;
    size_t i = begin + 2;
    for (; i < end && p->s[i] >= '0' && p->s[i] <= '9' && v < UINT32_MAX; i++) v = v * 10 + (unsigned)(p->s[i] - '0');
    if (i == begin + 2 || i + 2 != end || p->s[i] != ']') return gbnf_error(p, begin, "a token is <text> or <[id]>");
    if (v >= tokenizer_vocab(p->t)) return gbnf_error(p, begin, "the model has no token %llu", (unsigned long long)v);
    *id = (int32_t)v;
    return 0;
}

int gbnf_token(struct gbnf *p, expr_t *e)
{
    bool others = gbnf_peek(p) == '!';
    int32_t id = 0;
    p->at += others;
    size_t begin = p->at;
    if (gbnf_peek(p) != '<') return gbnf_error(p, begin, "'!' stands before a token only: !<text> or !<[id]>");
    const char *close = memchr(p->s + begin, '>', p->n - begin);
    if (!close || memchr(p->s + begin, '\n', (size_t)(close - p->s) - begin))
        return gbnf_error(p, begin, "the token has no end");
    size_t end = (size_t)(close - p->s) + 1;
    if (!p->t) return gbnf_error(p, begin, "tokens need a model");
    int r = p->s[begin + 1] == '[' ? token_by_id(p, begin, end, &id) : token_of(p, begin, end, &id);
    if (r == 0) *e = expr_tokens(p->b, &id, 1, others);
    p->at = end;
    return r;
}

static int number(struct gbnf *p, uint32_t *out)
{
    size_t begin = p->at;
    uint32_t v = 0;
    for (char c; (c = gbnf_peek(p)) >= '0' && c <= '9'; p->at++) {
        v = v * 10 + (unsigned)(c - '0');
        if (v > EXPR_REPEAT_MAX) return gbnf_error(p, begin, "more than %u repetitions", EXPR_REPEAT_MAX);
    }
    if (p->at == begin) return gbnf_error(p, begin, "a number of repetitions is missing");
    *out = v;
    return 0;
}

int gbnf_counts(struct gbnf *p, uint32_t *min, uint32_t *max)
{
    size_t begin = p->at++;
    gbnf_space(p, true);
    int r = number(p, min);
    if (r < 0) return r;
    *max = *min;
    gbnf_space(p, true);
    if (gbnf_peek(p) == ',') {
        p->at++;
        gbnf_space(p, true);
        *max = EXPR_UNLIMITED;
        char c = gbnf_peek(p);
        if (c >= '0' && c <= '9') r = number(p, max);
        if (r < 0) return r;
        gbnf_space(p, true);
    }
    if (gbnf_peek(p) != '}') return gbnf_error(p, begin, "repetitions are {m}, {m,} or {m,n}");
    if (*max < *min) return gbnf_error(p, begin, "the most repetitions are fewer than the least");
    p->at++;
    return 0;
}

/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/pattern.h"
#include "libcommon/error.h"

/* Assertions look at the text on both sides, so that a pattern with one is built from its end: after(p, start, rest)
 * are the texts that begin with a match of p and go on with one of @rest. @start: the match begins where the text
 * begins. */
static expr_t after(struct spelling *s, const struct pattern *p, bool start, expr_t rest);

static expr_t seq2(struct spelling *s, expr_t x, expr_t y)
{
    return expr_seq(s->builder, (expr_t[]){x, y}, 2);
}

static expr_t alt2(struct spelling *s, expr_t x, expr_t y)
{
    return expr_alt(s->builder, (expr_t[]){x, y}, 2);
}

static expr_t refuse(const char *what)
{
    error_say(-ENOTSUP, "%s in a pattern", what);
    return EXPR_ERROR;
}

static expr_t plain(struct spelling *s, const struct pattern *p);

static expr_t plain_list(struct spelling *s, const struct pattern *list, bool sequence)
{
    expr_t parts[64], out = sequence ? expr_empty(s->builder) : expr_none(s->builder);
    while (list) {
        size_t n = 0;
        parts[n++] = out;
        for (; list && n < 64; list = list->next) parts[n++] = plain(s, list);
        out = sequence ? expr_seq(s->builder, parts, n) : expr_alt(s->builder, parts, n);
    }
    return out;
}

/* A pattern without assertions. */
static expr_t plain(struct spelling *s, const struct pattern *p)
{
    switch (p->kind) {
    case PATTERN_CHARS:
        return p->chars;
    case PATTERN_REPEAT:
        return expr_repeat(s->builder, plain(s, p->child), p->min, p->max);
    case PATTERN_CAT:
    case PATTERN_ALT:
        return plain_list(s, p->child, p->kind == PATTERN_CAT);
    default:
        return expr_empty(s->builder);
    }
}

static bool any_begins(const struct pattern *list)
{
    for (; list; list = list->next)
        if (list->begins) return true;
    return false;
}

static expr_t look(struct spelling *s, const struct pattern *p, bool start, expr_t rest)
{
    if (p->behind) return refuse("look-behind inside a group");
    expr_t ahead = after(s, p->child, start, s->text);
    if (ahead == EXPR_ERROR || rest == EXPR_ERROR) return EXPR_ERROR;
    return expr_and(s->builder, rest, p->negated ? expr_not(s->builder, ahead) : ahead);
}

/* The elements of a sequence, from @list on. */
static expr_t elements(struct spelling *s, const struct pattern *list, bool start, expr_t rest)
{
    if (!list) return rest;
    struct grammar_builder *b = s->builder;
    if (list->kind == PATTERN_BEGIN) return start ? elements(s, list->next, start, rest) : expr_none(b);
    if (!any_begins(list->next) || !start)
        return after(s, list, start, elements(s, list->next, start && list->kind == PATTERN_LOOK, rest));
    if (list->kind == PATTERN_LOOK) return look(s, list, start, elements(s, list->next, start, rest));
    if (list->asserts) return refuse("\"^\" after another assertion");
    /* "^" further on matches only if this element is empty. */
    expr_t here = plain(s, list), empty = expr_empty(b);
    return alt2(s, seq2(s, expr_and(b, here, empty), elements(s, list->next, true, rest)),
                seq2(s, expr_and(b, here, expr_not(b, empty)), elements(s, list->next, false, rest)));
}

/* ((?!x)c)* at the end of the text: no x begins anywhere. */
static bool is_tempered(const struct pattern *p)
{
    const struct pattern *cat = p->child->kind == PATTERN_ALT && !p->child->child->next ? p->child->child : NULL;
    const struct pattern *first = cat ? cat->child : NULL, *second = first ? first->next : NULL;
    return p->max == EXPR_UNLIMITED && p->min <= 1 && second && !second->next && first->kind == PATTERN_LOOK &&
           first->negated && !first->behind && !first->child->asserts && second->kind == PATTERN_CHARS;
}

static expr_t repeat(struct spelling *s, const struct pattern *p, bool start, expr_t rest)
{
    struct grammar_builder *b = s->builder;
    if (p->max <= 1) {
        expr_t once = p->max == 0 ? expr_none(b) : after(s, p->child, start, rest);
        return p->min == 0 ? alt2(s, once, rest) : once;
    }
    if (is_tempered(p) && rest == expr_empty(b)) {
        const struct pattern *first = p->child->child->child;
        expr_t x = seq2(s, s->text, seq2(s, plain(s, first->child), s->text));
        return expr_and(b, expr_repeat(b, first->next->chars, p->min, p->max), expr_not(b, x));
    }
    if (p->begins || p->max > 8) return refuse("an assertion inside a repetition");
    expr_t out = rest;
    for (uint32_t i = p->max; i > 0; i--) {
        expr_t once = after(s, p->child, false, out);
        out = i > p->min ? alt2(s, once, rest) : once;
    }
    return out;
}

static expr_t after(struct spelling *s, const struct pattern *p, bool start, expr_t rest)
{
    struct grammar_builder *b = s->builder;
    if (rest == EXPR_ERROR) return EXPR_ERROR;
    if (!p->asserts) return seq2(s, plain(s, p), rest);
    expr_t out = expr_none(b);
    switch (p->kind) {
    case PATTERN_CAT:
        return elements(s, p->child, start, rest);
    case PATTERN_ALT:
        for (const struct pattern *c = p->child; c && out != EXPR_ERROR; c = c->next) {
            expr_t one = after(s, c, start, rest);
            out = one == EXPR_ERROR ? EXPR_ERROR : alt2(s, out, one);
        }
        return out;
    case PATTERN_REPEAT:
        return repeat(s, p, start, rest);
    case PATTERN_BEGIN:
        return start ? rest : out;
    case PATTERN_END:
        return expr_and(b, rest, expr_empty(b));
    case PATTERN_LOOK:
        return look(s, p, start, rest);
    default:
        return rest;
    }
}

/* Where any text may stand before @cat (@first), or behind it, x{m,n} at its border finds no more than x{m}. */
static void trim(const struct pattern *cat, bool first)
{
    struct pattern *c = cat->child;
    while (c && !first && c->next) c = c->next;
    if (c && c->kind == PATTERN_REPEAT && !c->asserts && c->max > c->min) c->max = c->min;
}

/* Everything from the beginning of the text: @p is looked for anywhere, or must begin there. */
static expr_t from_start(struct spelling *s, const struct pattern *p, bool whole, expr_t rest)
{
    if (whole) return after(s, p, true, rest);
    if (!p->begins) return seq2(s, s->text, after(s, p, false, rest));
    expr_t first = after(s, p, true, rest), later = first == EXPR_ERROR ? first : after(s, p, false, rest);
    if (later == EXPR_ERROR) return EXPR_ERROR;
    return alt2(s, first, seq2(s, expr_repeat(s->builder, s->any, 1, EXPR_UNLIMITED), later));
}

/* A sequence with look-behind: the texts before it must end with its pattern. */
static expr_t around_behind(struct spelling *s, const struct pattern *cat, struct pattern *before, bool whole)
{
    struct pattern head = {.kind = PATTERN_CAT, .child = cat->child}, *behind = before ? before->next : cat->child;
    for (const struct pattern *c = cat->child; c != behind; c = c->next) {
        if (c->asserts && c->kind != PATTERN_BEGIN) return refuse("look-behind after another assertion");
        head.begins = head.begins || c->begins;
        head.asserts = head.begins;
    }
    if (any_begins(behind->next) || behind->child->asserts) return refuse("look-behind with another assertion");
    if (before)
        before->next = NULL; /* cuts the sequence while its head is built */
    else
        head.child = NULL;
    expr_t left = from_start(s, &head, whole, expr_empty(s->builder));
    if (before) before->next = behind;
    expr_t ends = seq2(s, s->text, plain(s, behind->child));
    expr_t right = elements(s, behind->next, false, whole ? expr_empty(s->builder) : s->text);
    if (left == EXPR_ERROR || right == EXPR_ERROR) return EXPR_ERROR;
    left = expr_and(s->builder, left, behind->negated ? expr_not(s->builder, ends) : ends);
    return seq2(s, left, right);
}

expr_t pattern_expr(struct spelling *s, const struct pattern *p, bool whole)
{
    if (p->kind == PATTERN_ALT && !p->child->next) {
        struct pattern *before = NULL;
        for (struct pattern *c = p->child->child; c; before = c, c = c->next)
            if (c->kind == PATTERN_LOOK && c->behind) return around_behind(s, p->child, before, whole);
    }
    for (struct pattern *c = p->kind == PATTERN_ALT && !whole ? p->child : NULL; c; c = c->next) {
        trim(c, false);
        if (!p->begins) trim(c, true);
    }
    return from_start(s, p, whole, whole ? expr_empty(s->builder) : s->text);
}

/* SPDX-License-Identifier: MIT */
#pragma once
/* The inside of the parser of regular expressions. */
#include "daemon/text/grammar/expr-list.h"
#include "daemon/text/grammar/regex-syntax.h"

struct regex_parser {
    struct grammar_builder *b;
    const char *s;
    size_t n, at;
    bool fold, dot_all; /* (?i), (?s) */
    bool begun;         /* something stands before the place, so that ^ is inside */
    bool ended;         /* $ stands before the place */
    unsigned depth, anchors;
};

/* Sets the error message, with the place @at. Returns -EINVAL. */
int regex_error(const struct regex_parser *p, size_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The byte @ahead of the place; 0 behind the end. A text has no NUL. */
static inline char regex_peek(const struct regex_parser *p, size_t ahead)
{
    return p->at + ahead < p->n ? p->s[p->at + ahead] : 0;
}

/* regex-classes.c. Each reads from the place on. 0 or an error as regex_parse. */
int regex_class(struct regex_parser *p, expr_t *e);  /* [...] */
int regex_escape(struct regex_parser *p, expr_t *e); /* \... of one character or class */
int regex_char(struct regex_parser *p, uint32_t cp, size_t at, expr_t *e);

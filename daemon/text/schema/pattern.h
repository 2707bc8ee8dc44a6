/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Regular expressions of ECMA 262 (with the flag u), as expressions over the written form of texts (spelling.h).
 *
 * Refused: references to groups, \b and \B, \p{...} other than a few, assertions inside a repetition, look-behind that
 * is not at the outermost level; patterns over PATTERN_BYTES_MAX bytes, nested deeper than PATTERN_DEPTH_MAX, or with a
 * count over PATTERN_COUNT_MAX.
 */
#include "daemon/text/schema/spelling.h"
#include "daemon/text/template/jinja-arena.h"

#define PATTERN_BYTES_MAX 8192
#define PATTERN_DEPTH_MAX 100
#define PATTERN_COUNT_MAX 100000

enum pattern_kind {
    PATTERN_EMPTY,
    PATTERN_CHARS,
    PATTERN_CAT,
    PATTERN_ALT,
    PATTERN_REPEAT,
    PATTERN_BEGIN,
    PATTERN_END,
    PATTERN_LOOK
};

struct pattern {
    enum pattern_kind kind;
    bool asserts;      /* an assertion inside */
    bool begins;       /* "^" inside */
    bool negated;      /* LOOK */
    bool behind;       /* LOOK */
    uint32_t min, max; /* REPEAT */
    expr_t chars;
    struct pattern *child; /* the first of CAT and ALT; the only one of REPEAT and LOOK */
    struct pattern *next;
};

/* Parses @text[0..n), UTF-8. The tree lies in @a. 0; -EBADMSG: not a regular expression; -ENOTSUP: refused; -E2BIG;
 * -ENOMEM. */
int pattern_parse(struct jj_arena *a, struct spelling *s, const char *text, size_t n, struct pattern **out);

/* The texts in which the pattern is found, or (@whole) which it matches from beginning to end. EXPR_ERROR: refused (the
 * message is set), or the builder has failed. */
expr_t pattern_expr(struct spelling *s, const struct pattern *p, bool whole);

int pattern_class(const char *text, size_t n, size_t *at, struct char_class *out);  /* pattern-class.c: after '[' */
int pattern_escape(const char *text, size_t n, size_t *at, struct char_class *out); /* after a backslash */
bool pattern_set(char name, struct char_class *out);                                /* d D w W s S */

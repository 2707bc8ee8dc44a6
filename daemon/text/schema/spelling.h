/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * How characters are written inside a JSON string. The written form of a character is
 * - itself, if it is an ASCII character that may stand for itself ('/' also as \/);
 * - a short escape, or \u00XX, if it is a quote, a backslash or a control character (quote and backslash: short only;
 *   DEL also as itself);
 * - itself, \uXXXX, or a pair of surrogates as \uXXXX\uXXXX, if it is not ASCII.
 * Hexadecimal digits may have either case. Each string of this form stands for exactly one text, so that the written
 * form of an intersection, a complement or a repetition of sets of texts is that of their written forms.
 *
 * The raw form is for strings that are no JSON: each character is itself.
 */
#include "daemon/text/grammar/grammar-build.h"
#include <stdbool.h>

#define CLASS_RANGES_MAX 256

/* A set of code points: ascending ranges that neither overlap nor touch, without surrogates. */
struct char_class {
    struct expr_range range[CLASS_RANGES_MAX];
    size_t n;
};

/* Each keeps the form above. False: more than CLASS_RANGES_MAX ranges, the class is unchanged. */
bool class_add(struct char_class *c, uint32_t first, uint32_t last);
bool class_add_class(struct char_class *c, const struct char_class *more);
bool class_invert(struct char_class *c);

struct spelling {
    struct grammar_builder *builder;
    bool raw;
    expr_t any;  /* one character */
    expr_t text; /* any number of characters */
    struct {
        struct expr_range range[16];
        size_t n;
        expr_t expr;
    } memo[64]; /* of small classes */
};

void spelling_init(struct spelling *s, struct grammar_builder *b, bool raw);
expr_t spell_class(struct spelling *s, const struct char_class *c);
expr_t spell_char(struct spelling *s, uint32_t c);
expr_t spell_text(struct spelling *s, const char *text, size_t n); /* valid UTF-8 */

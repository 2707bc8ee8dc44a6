/* SPDX-License-Identifier: MIT */
#pragma once
/* Numbers without sign and exponent as regular expressions: digits, and perhaps a point and more digits. */
#include "daemon/text/grammar/grammar-build.h"
#include "daemon/text/schema/decimal.h"

struct digits {
    struct grammar_builder *b;
    expr_t any;   /* one digit */
    expr_t some;  /* no or more digits */
    expr_t whole; /* without leading zeros */
    expr_t part;  /* a point and digits, or nothing */
    expr_t zeros; /* a point and zeros, or nothing */
};

void digits_init(struct digits *d, struct grammar_builder *b);
expr_t digit_range(struct digits *d, char lo, char hi); /* none if lo > hi */

/* All that are >= or > @x (its sign is not looked at), < or <=, or equal. @integer: without a point.
 * EXPR_ERROR: @x is too long. */
expr_t digits_from(struct digits *d, const struct decimal *x, bool exclusive, bool integer);
expr_t digits_to(struct digits *d, const struct decimal *x, bool exclusive, bool integer);
expr_t digits_equal(struct digits *d, const struct decimal *x);

/* The multiples of @x, number-multiple.c; they may have rules inside (expr_is_regular), and then have 0 only with
 * @zero. @integer: without a point. EXPR_ERROR: not supported. */
expr_t digits_multiple(struct digits *d, const struct decimal *x, bool integer, bool zero);

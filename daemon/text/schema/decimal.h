/* SPDX-License-Identifier: MIT */
#pragma once
/* Exact decimal numbers, as JSON writes them. */
#include "daemon/text/template/jinja-arena.h"
#include <stdbool.h>
#include <stdint.h>

#define DECIMAL_DIGITS_MAX 400 /* of a number written without exponent */

/* digits * 10^exponent. No digit is left out but zeros at either end; the number 0 has no digits and exponent 0. */
struct decimal {
    const char *digits;
    uint32_t n;
    int32_t exponent;
    bool negative;
};

/* A number as JSON writes it. The digits lie in @a. 0, -E2BIG (an exponent beyond a billion) or -ENOMEM. */
int decimal_parse(struct jj_arena *a, const char *text, size_t n, struct decimal *out);
int decimal_compare(const struct decimal *x, const struct decimal *y); /* < 0, 0, > 0 */
bool decimal_is_integer(const struct decimal *x);

/* Digits before the point; 0 or less: the number is under 1. */
static inline int64_t decimal_size(const struct decimal *x)
{
    return (int64_t)x->n + x->exponent;
}

/* Without exponent: the digits before the point ("0" if there are none) and behind it. @whole and @part have room for
 * DECIMAL_DIGITS_MAX + 1 bytes. False: the number is longer. */
bool decimal_plain(const struct decimal *x, char *whole, char *part);
/* x / y is an integer; y is not 0. -1: not decided. */
int decimal_divides(const struct decimal *y, const struct decimal *x);

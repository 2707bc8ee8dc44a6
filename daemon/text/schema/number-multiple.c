/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/number-range.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RULE_DIVISOR_MAX 1000 /* of multiples that are rules: one for each remainder */
#define SUFFIX_DIGITS    4    /* a divisor of 10^4 is decided by the last digits */

static expr_t seq2(struct digits *d, expr_t x, expr_t y)
{
    return expr_seq(d->b, (expr_t[]){x, y}, 2);
}

static expr_t alt2(struct digits *d, expr_t x, expr_t y)
{
    return expr_alt(d->b, (expr_t[]){x, y}, 2);
}

/* Digits that begin anywhere in a number and end it, @n of them, a multiple of @v as one number; or with @point a point
 * before the last @point. */
static expr_t endings(struct digits *d, uint32_t v, unsigned n, unsigned point)
{
    uint32_t limit = 1;
    for (unsigned i = 0; i < n; i++) limit *= 10;
    expr_t out = expr_none(d->b), parts[64];
    size_t k = 0;
    for (uint32_t x = 0; x < limit; x += v) {
        char text[32];
        int len = snprintf(text, sizeof(text), "%0*u", (int)n, x);
        if (point) {
            memmove(text + len - point + 1, text + len - point, point);
            text[len - (int)point] = '.';
            len++;
        }
        parts[k++] = expr_bytes(d->b, text, (size_t)len);
        if (k == 64) {
            out = alt2(d, out, expr_alt(d->b, parts, k));
            k = 0;
        }
    }
    return alt2(d, out, expr_alt(d->b, parts, k));
}

/* v divides 10^n, n the smallest; the number is an integer: any digits, then one of the endings. */
static expr_t integers_by_ending(struct digits *d, uint32_t v, unsigned n)
{
    expr_t any_digits = seq2(d, d->some, endings(d, v, n, 0));
    expr_t out = expr_and(d->b, d->whole, any_digits), parts[1];
    for (unsigned len = 1; len < n; len++) { /* numbers shorter than an ending */
        parts[0] = expr_and(d->b, d->whole, endings(d, v, len, 0));
        out = alt2(d, out, parts[0]);
    }
    return out;
}

/* Numbers with @shown digits behind the point that, without it, are multiples of @v, a divisor of a power of 10. */
static expr_t shown_by_ending(struct digits *d, uint32_t v, unsigned shown)
{
    expr_t point = expr_bytes(d->b, ".", 1), whole = d->whole;
    unsigned n = 0;
    for (uint32_t power = 1; power % v != 0; power *= 10) n++;
    if (n <= shown) { /* the last n digits decide, all behind the point */
        if (shown == 0) return whole;
        expr_t free = expr_repeat(d->b, d->any, shown - n, shown - n);
        return expr_seq(d->b, (expr_t[]){whole, point, free, n > 0 ? endings(d, v, n, 0) : expr_empty(d->b)}, 4);
    }
    if (n > SUFFIX_DIGITS) return EXPR_ERROR;
    expr_t out = seq2(d, d->some, endings(d, v, n, shown));
    for (unsigned len = shown + 1; len < n; len++) out = alt2(d, out, endings(d, v, len, shown));
    return out;
}

/* The multiples of v * 10^-places: they have @places digits behind the point, more that are 0, or fewer (if those left
 * out are 0). */
static expr_t parts_by_ending(struct digits *d, uint32_t v, unsigned places)
{
    expr_t zeros = expr_repeat(d->b, expr_bytes(d->b, "0", 1), 0, EXPR_UNLIMITED), out = expr_none(d->b);
    for (unsigned shown = 0; shown <= places; shown++) {
        uint32_t rest = v; /* divided by what it has in common with the power of 10 that is left out */
        for (unsigned i = shown; i < places; i++) rest /= (rest % 2 == 0 ? 2 : 1) * (rest % 5 == 0 ? 5 : 1);
        expr_t some = shown_by_ending(d, rest, shown);
        if (some == EXPR_ERROR) return some;
        out = alt2(d, out, seq2(d, some, shown > 0 ? zeros : d->zeros));
    }
    return expr_and(d->b, seq2(d, d->whole, d->part), out);
}

/* The rules of multiples: one for each remainder before the point, and one for each number of digits behind it. */
struct remainders {
    struct digits *d;
    uint32_t v;
    unsigned places; /* the number is v * 10^-places times an integer */
    bool integer;
    expr_t *whole, *part; /* [v]; [places + 1][v], the first row not used */
};

static expr_t digit_then(struct digits *d, uint32_t digit, expr_t rest)
{
    return seq2(d, digit_range(d, (char)('0' + digit), (char)('0' + digit)), rest);
}

/* After @n digits behind the point, with remainder @r. */
static void define_part(struct remainders *m, unsigned n, uint32_t r)
{
    expr_t next[11];
    size_t k = 0;
    uint64_t rest = r;
    for (unsigned i = n; i < m->places; i++) rest = rest * 10 % m->v;
    if (rest == 0) next[k++] = expr_empty(m->d->b);
    if (n == m->places && r == 0) next[k++] = digit_then(m->d, 0, m->part[n * m->v + r]);
    for (uint32_t i = 0; n < m->places && i < 10; i++)
        next[k++] = digit_then(m->d, i, m->part[(n + 1) * m->v + (r * 10 + i) % m->v]);
    expr_define(m->d->b, m->part[n * m->v + r], expr_alt(m->d->b, next, k));
}

/* What ends a number whose digits before the point have remainder @r. */
static expr_t ending(struct remainders *m, uint32_t r)
{
    struct grammar_builder *b = m->d->b;
    expr_t first[10], out = expr_none(b);
    uint64_t rest = r;
    for (unsigned i = 0; i < m->places; i++) rest = rest * 10 % m->v;
    if (rest == 0) out = expr_empty(b);
    if (m->integer) return out;
    if (m->places == 0) return rest == 0 ? m->d->zeros : out;
    for (uint32_t i = 0; i < 10; i++) first[i] = digit_then(m->d, i, m->part[m->v + (r * 10 + i) % m->v]);
    return alt2(m->d, out, seq2(m->d, expr_bytes(b, ".", 1), expr_alt(b, first, 10)));
}

/* The text behind the digit 0 in a number that begins with it and is not 0. */
static expr_t ending_over_zero(struct remainders *m)
{
    expr_t digits = expr_none(m->d->b), next[10];
    if (m->integer) return digits;
    for (unsigned n = m->places; n-- > 0;) { /* @n zeros behind the point */
        next[0] = digit_then(m->d, 0, digits);
        for (uint32_t i = 1; i < 10; i++) next[i] = digit_then(m->d, i, m->part[(n + 1) * m->v + i % m->v]);
        digits = expr_alt(m->d->b, next, 10);
    }
    return seq2(m->d, expr_bytes(m->d->b, ".", 1), digits);
}

static expr_t by_rules(struct digits *d, uint32_t v, unsigned places, bool integer, bool zero)
{
    size_t n = (size_t)v * (places + 2);
    if (v > RULE_DIVISOR_MAX || n > 4 * RULE_DIVISOR_MAX) return EXPR_ERROR;
    expr_t *rules = calloc(n, sizeof(*rules)), next[11];
    if (!rules) return EXPR_ERROR;
    struct remainders m = {.d = d, .v = v, .places = places, .integer = integer, .whole = rules, .part = rules + v};
    for (size_t i = 0; i < n; i++) rules[i] = expr_rule(d->b);
    for (uint32_t r = 0; r < v; r++) {
        for (uint32_t i = 0; i < 10; i++) next[i] = digit_then(d, i, m.whole[(r * 10 + i) % v]);
        next[10] = ending(&m, r);
        expr_define(d->b, m.whole[r], expr_alt(d->b, next, 11));
        for (unsigned i = 1; i <= places; i++) define_part(&m, i, r);
    }
    next[0] = seq2(d, expr_bytes(d->b, "0", 1), zero ? ending(&m, 0) : ending_over_zero(&m));
    for (uint32_t i = 1; i < 10; i++) next[i] = digit_then(d, i, m.whole[i % v]);
    expr_t out = expr_alt(d->b, next, 10);
    free(rules);
    return out;
}

/* v * 10^zeros, v a divisor of a power of 10 */
static expr_t integers(struct digits *d, uint32_t v, uint32_t zeros)
{
    unsigned n = 0;
    for (uint32_t power = 1; power % v != 0; power *= 10) n++;
    if (n > SUFFIX_DIGITS) return EXPR_ERROR;
    expr_t out = v == 1 ? d->whole : integers_by_ending(d, v, n), zero = expr_bytes(d->b, "0", 1);
    if (zeros == 0) return out;
    char text[20];
    memset(text, '0', sizeof(text));
    if (zeros > sizeof(text)) return EXPR_ERROR;
    out = expr_and(d->b, out, expr_not(d->b, zero));
    return alt2(d, zero, seq2(d, out, expr_bytes(d->b, text, zeros)));
}

expr_t digits_multiple(struct digits *d, const struct decimal *x, bool integer, bool zero)
{
    uint32_t v = 0;
    if (x->n == 0 || x->n > 6 || x->exponent < -6) return EXPR_ERROR;
    for (uint32_t i = 0; i < x->n; i++) v = v * 10 + (uint32_t)(x->digits[i] - '0');
    uint32_t odd = v;
    while (odd % 2 == 0) odd /= 2;
    while (odd % 5 == 0) odd /= 5;
    if (odd != 1) {
        for (int32_t i = 0; i < x->exponent && v <= RULE_DIVISOR_MAX; i++) v *= 10;
        return by_rules(d, v, x->exponent < 0 ? (unsigned)-x->exponent : 0, integer, zero);
    }
    if (x->exponent < 0) return parts_by_ending(d, v, (unsigned)-x->exponent);
    expr_t out = integers(d, v, (uint32_t)x->exponent);
    return out == EXPR_ERROR || integer ? out : seq2(d, out, d->zeros);
}

/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/number-range.h"
#include <string.h>

static expr_t seq2(struct digits *d, expr_t x, expr_t y)
{
    return expr_seq(d->b, (expr_t[]){x, y}, 2);
}

static expr_t alt2(struct digits *d, expr_t x, expr_t y)
{
    return expr_alt(d->b, (expr_t[]){x, y}, 2);
}

expr_t digit_range(struct digits *d, char lo, char hi)
{
    if (lo > hi) return expr_none(d->b);
    struct expr_range r = {(uint32_t)lo, (uint32_t)hi};
    return expr_chars(d->b, &r, 1);
}

void digits_init(struct digits *d, struct grammar_builder *b)
{
    d->b = b;
    d->any = digit_range(d, '0', '9');
    d->some = expr_repeat(b, d->any, 0, EXPR_UNLIMITED);
    d->whole = alt2(d, expr_bytes(b, "0", 1), seq2(d, digit_range(d, '1', '9'), d->some));
    expr_t point = expr_bytes(b, ".", 1);
    d->part = alt2(d, expr_empty(b), seq2(d, point, expr_repeat(b, d->any, 1, EXPR_UNLIMITED)));
    d->zeros = alt2(d, expr_empty(b), seq2(d, point, expr_repeat(b, expr_bytes(b, "0", 1), 1, EXPR_UNLIMITED)));
}

static expr_t literal(struct digits *d, char c)
{
    return expr_bytes(d->b, &c, 1);
}

/* As many digits as @w, and more (or @less). */
static expr_t same_length(struct digits *d, const char *w, bool less)
{
    size_t n = strlen(w);
    expr_t out = expr_none(d->b);
    for (size_t i = n; i-- > 0;) {
        char lowest = i == 0 && n > 1 ? '1' : '0';
        expr_t here = less ? digit_range(d, lowest, (char)(w[i] - 1)) : digit_range(d, (char)(w[i] + 1), '9');
        uint32_t rest = (uint32_t)(n - 1 - i);
        out = alt2(d, seq2(d, here, expr_repeat(d->b, d->any, rest, rest)), seq2(d, literal(d, w[i]), out));
    }
    return out;
}

static expr_t whole_over(struct digits *d, const char *w)
{
    expr_t longer = seq2(d, digit_range(d, '1', '9'), expr_repeat(d->b, d->any, (uint32_t)strlen(w), EXPR_UNLIMITED));
    return alt2(d, same_length(d, w, false), longer);
}

static expr_t whole_under(struct digits *d, const char *w)
{
    uint32_t n = (uint32_t)strlen(w);
    expr_t out = same_length(d, w, true);
    if (n == 1) return out;
    out = alt2(d, out, literal(d, '0'));
    return alt2(d, out, seq2(d, digit_range(d, '1', '9'), expr_repeat(d->b, d->any, 0, n - 2)));
}

/* Behind the point: digits that stand for at least, or more than, those of @p. */
static expr_t part_over(struct digits *d, const char *p, bool exclusive)
{
    expr_t zeros = expr_repeat(d->b, literal(d, '0'), 0, EXPR_UNLIMITED);
    expr_t out = exclusive ? seq2(d, zeros, seq2(d, digit_range(d, '1', '9'), d->some)) : d->some;
    for (size_t i = strlen(p); i-- > 0;)
        out = alt2(d, seq2(d, digit_range(d, (char)(p[i] + 1), '9'), d->some), seq2(d, literal(d, p[i]), out));
    return out;
}

static expr_t part_under(struct digits *d, const char *p, bool exclusive)
{
    expr_t out = exclusive ? expr_none(d->b) : expr_repeat(d->b, literal(d, '0'), 0, EXPR_UNLIMITED);
    for (size_t i = strlen(p); i-- > 0;) {
        if (p[i + 1]) out = alt2(d, out, expr_empty(d->b)); /* more digits would follow in @p, the last of them not 0 */
        out = alt2(d, seq2(d, digit_range(d, '0', (char)(p[i] - 1)), d->some), seq2(d, literal(d, p[i]), out));
    }
    return out;
}

expr_t digits_from(struct digits *d, const struct decimal *x, bool exclusive, bool integer)
{
    char w[DECIMAL_DIGITS_MAX + 1], p[DECIMAL_DIGITS_MAX + 1];
    if (!decimal_plain(x, w, p)) return EXPR_ERROR;
    expr_t whole = expr_bytes(d->b, w, strlen(w)), point = literal(d, '.');
    if (integer) return *p || exclusive ? whole_over(d, w) : alt2(d, whole_over(d, w), whole);
    expr_t same;
    if (*p)
        same = seq2(d, point, part_over(d, p, exclusive));
    else
        same = exclusive ? seq2(d, point, part_over(d, "", true)) : d->part;
    return alt2(d, seq2(d, whole_over(d, w), d->part), seq2(d, whole, same));
}

expr_t digits_to(struct digits *d, const struct decimal *x, bool exclusive, bool integer)
{
    char w[DECIMAL_DIGITS_MAX + 1], p[DECIMAL_DIGITS_MAX + 1];
    if (!decimal_plain(x, w, p)) return EXPR_ERROR;
    expr_t whole = expr_bytes(d->b, w, strlen(w)), point = literal(d, '.');
    if (integer) return !*p && exclusive ? whole_under(d, w) : alt2(d, whole_under(d, w), whole);
    expr_t same;
    if (*p)
        same = alt2(d, expr_empty(d->b), seq2(d, point, part_under(d, p, exclusive)));
    else
        same = exclusive ? expr_none(d->b) : d->zeros;
    return alt2(d, seq2(d, whole_under(d, w), d->part), seq2(d, whole, same));
}

expr_t digits_equal(struct digits *d, const struct decimal *x)
{
    char w[DECIMAL_DIGITS_MAX + 1], p[DECIMAL_DIGITS_MAX + 1];
    if (!decimal_plain(x, w, p)) return EXPR_ERROR;
    expr_t whole = expr_bytes(d->b, w, strlen(w)), zeros = expr_repeat(d->b, literal(d, '0'), 0, EXPR_UNLIMITED);
    if (!*p) return seq2(d, whole, d->zeros);
    return expr_seq(d->b, (expr_t[]){whole, literal(d, '.'), expr_bytes(d->b, p, strlen(p)), zeros}, 4);
}

/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/decimal.h"
#include <errno.h>
#include <string.h>

/* The exponent as it is written, or more than a billion. */
static int64_t written_exponent(const char *text, size_t n)
{
    bool negative = n > 0 && *text == '-';
    int64_t v = 0;
    for (size_t i = n > 0 && (*text == '-' || *text == '+'); i < n && v <= 1000000000; i++)
        v = v * 10 + (text[i] - '0');
    return negative ? -v : v;
}

int decimal_parse(struct jj_arena *a, const char *text, size_t n, struct decimal *out)
{
    int err = 0;
    char *digits = jj_arena_bytes(a, n ? n : 1, &err);
    if (!digits) return err;
    *out = (struct decimal){.digits = digits, .negative = n > 0 && *text == '-'};
    int64_t exponent = 0;
    bool point = false;
    uint32_t len = 0;
    for (size_t i = out->negative; i < n; i++) {
        if (text[i] == 'e' || text[i] == 'E') {
            exponent += written_exponent(text + i + 1, n - i - 1);
            break;
        }
        if (text[i] == '.') {
            point = true;
            continue;
        }
        exponent -= point;
        if (len > 0 || text[i] != '0') digits[len++] = text[i];
    }
    while (len > 0 && digits[len - 1] == '0') len--, exponent++;
    if (len == 0) {
        *out = (struct decimal){.digits = digits};
        return 0;
    }
    if (exponent > 1000000000 || exponent < -1000000000) return -E2BIG;
    out->n = len;
    out->exponent = (int32_t)exponent;
    return 0;
}

static int compare_sizes(const struct decimal *x, const struct decimal *y)
{
    int64_t a = decimal_size(x), b = decimal_size(y);
    if (a != b) return a < b ? -1 : 1;
    uint32_t n = x->n < y->n ? x->n : y->n;
    int r = memcmp(x->digits, y->digits, n);
    return r ? r : (x->n > y->n) - (x->n < y->n);
}

int decimal_compare(const struct decimal *x, const struct decimal *y)
{
    int sx = x->n == 0 ? 0 : x->negative ? -1 : 1, sy = y->n == 0 ? 0 : y->negative ? -1 : 1;
    if (sx != sy || sx == 0) return sx - sy;
    return sx * compare_sizes(x, y);
}

bool decimal_is_integer(const struct decimal *x)
{
    return x->exponent >= 0;
}

bool decimal_plain(const struct decimal *x, char *whole, char *part)
{
    int64_t before = decimal_size(x), behind = x->exponent < 0 ? -(int64_t)x->exponent : 0;
    if (before > DECIMAL_DIGITS_MAX || behind > DECIMAL_DIGITS_MAX) return false;
    size_t w = 0, p = 0;
    if (x->n > 0)
        for (int64_t i = 0; i < before; i++) whole[w++] = i < x->n ? x->digits[i] : '0';
    if (w == 0) whole[w++] = '0';
    for (int64_t i = before - 0; i < 0; i++) part[p++] = '0';
    for (int64_t i = before > 0 ? before : 0; i < x->n; i++) part[p++] = x->digits[i];
    whole[w] = 0;
    part[p] = 0;
    return true;
}

int decimal_divides(const struct decimal *y, const struct decimal *x)
{
    if (x->n == 0) return 1;
    if (y->n > 18) return -1;
    uint64_t divisor = 0, rest = 0;
    for (uint32_t i = 0; i < y->n; i++) divisor = divisor * 10 + (uint64_t)(y->digits[i] - '0');
    int64_t zeros = (int64_t)x->exponent - y->exponent;
    if (zeros < 0) return 0; /* the last digit of x is not 0 */
    for (uint32_t i = 0; i < x->n; i++) rest = (rest * 10 + (uint64_t)(x->digits[i] - '0')) % divisor;
    for (int64_t i = 0; i < zeros && rest != 0; i++) {
        if (i == 64) return 0; /* 10^64 has every factor 2 and 5 that a divisor of 18 digits can have */
        rest = rest * 10 % divisor;
    }
    return rest == 0;
}

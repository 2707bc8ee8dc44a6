/* SPDX-License-Identifier: MIT */
#include "libcommon/units.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unit {
    const char *suffix;
    uint64_t factor;
};

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Read digits at *s as a number, and advance *s behind them. False: no digits, or overflow. */
static bool digits(const char **s, uint64_t *v)
{
    const char *p = *s;
    *v = 0;
    if (!digit(*p)) return false;
    for (; digit(*p); p++)
        if (__builtin_mul_overflow(*v, 10, v) || __builtin_add_overflow(*v, (uint64_t)(*p - '0'), v)) return false;
    *s = p;
    return true;
}

/* NUMBER[.FRACTION]SUFFIX in exact integer arithmetic; @units ends with a NULL suffix. */
static int parse_unit(const char *s, const struct unit *units, const char *what, uint64_t *out)
{
    const char *p = s;
    uint64_t whole, fraction = 0, scale = 1;
    if (!digits(&p, &whole)) return error_say(-EINVAL, "'%.64s' is not %s", s, what);
    if (*p == '.') {
        if (!digit(*++p)) return error_say(-EINVAL, "'%.64s' is not %s", s, what);
        for (; digit(*p); p++) {
            if (scale == 1000000) continue; /* digits below a millionth of a unit are ignored */
            fraction = fraction * 10 + (uint64_t)(*p - '0');
            scale *= 10;
        }
    }
    for (; units->suffix; units++)
        if (strcmp(p, units->suffix) == 0) break;
    if (!units->suffix) return error_say(-EINVAL, "'%.64s' is not %s", s, what);
    /* factor < 2^41 and fraction < 2^20, so the product below fits */
    if (__builtin_mul_overflow(whole, units->factor, &whole) ||
        __builtin_add_overflow(whole, fraction * units->factor / scale, &whole))
        return error_say(-EINVAL, "'%.64s' is too large", s);
    *out = whole;
    return 0;
}

int parse_size(const char *s, uint64_t *bytes)
{
    static const struct unit units[] = {
        {"", 1},           {"B", 1},          {"K", 1u << 10},   {"k", 1u << 10},     {"KiB", 1u << 10},
        {"M", 1u << 20},   {"m", 1u << 20},   {"MiB", 1u << 20}, {"G", 1u << 30},     {"g", 1u << 30},
        {"GiB", 1u << 30}, {"T", 1ull << 40}, {"t", 1ull << 40}, {"TiB", 1ull << 40}, {NULL, 0},
    };
    return parse_unit(s, units, "a size (bytes, or 512M, 4G)", bytes);
}

int parse_time(const char *s, uint64_t *usec)
{
    static const struct unit units[] = {
        {"", 1000000},     {"us", 1},          {"ms", 1000},        {"s", 1000000},
        {"min", 60000000}, {"h", 3600000000u}, {"d", 86400000000u}, {NULL, 0},
    };
    return parse_unit(s, units, "a time (seconds, or 500ms, 30s, 15min, 1h)", usec);
}

int parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *v)
{
    const char *p = s;
    if (!*s || s[strspn(s, "0123456789")]) return error_say(-EINVAL, "'%.64s' is not a whole number", s);
    uint64_t n;
    if (!digits(&p, &n) || n < min || n > max) {
        if (max == UINT64_MAX && min == 0) return error_say(-EINVAL, "'%.64s' is too large", s);
        if (max == UINT64_MAX) return error_say(-EINVAL, "'%.64s' is not %llu or more", s, (unsigned long long)min);
        return error_say(-EINVAL, "'%.64s' is not between %llu and %llu", s, (unsigned long long)min,
                         (unsigned long long)max);
    }
    *v = n;
    return 0;
}

int parse_float(const char *s, float min, float max, float *v)
{
    /* strtof also takes spaces, inf, nan and hexadecimals. */
    if (!*s || s[strspn(s, "0123456789.eE+-")] || (!digit(*s) && *s != '.' && *s != '-'))
        return error_say(-EINVAL, "'%.64s' is not a number", s);
    char *end;
    float f = strtof(s, &end);
    if (end == s || *end) return error_say(-EINVAL, "'%.64s' is not a number", s);
    if (!isfinite(f) || f < min || f > max)
        return error_say(-EINVAL, "'%.64s' is not between %g and %g", s, (double)min, (double)max);
    *v = f;
    return 0;
}

char *format_size(char *out, uint64_t bytes)
{
    static const char suffix[] = "BKMGTPE";
    double v = (double)bytes;
    int u = 0;
    /* 1023.95 would be printed as 1024 of its unit */
    while (u < 6 && v >= (u ? 1023.95 : 1023.5)) {
        v /= 1024;
        u++;
    }
    unsigned tenths = (unsigned)(v * 10 + 0.5);
    if (v >= 99.95 || tenths % 10 == 0)
        snprintf(out, 16, "%.0f%c", v, suffix[u]);
    else
        snprintf(out, 16, "%u.%u%c", tenths / 10, tenths % 10, suffix[u]);
    return out;
}

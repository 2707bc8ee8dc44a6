/* SPDX-License-Identifier: MIT */
#include "daemon/text/template/jinja-unicode.h"

bool jj_is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool jj_is_alpha(uint32_t c)
{
    return character_in(jj_alpha_ranges, jj_n_alpha, c);
}

bool jj_is_numeric(uint32_t c)
{
    return character_in(jj_numeric_ranges, jj_n_numeric, c);
}

bool jj_is_digit(uint32_t c)
{
    return character_in(jj_digit_ranges, jj_n_digit, c);
}

bool jj_is_decimal(uint32_t c)
{
    return character_in(jj_decimal_ranges, jj_n_decimal, c);
}

bool jj_is_cased(uint32_t c)
{
    return character_in(jj_cased_ranges, jj_n_cased, c);
}

bool jj_is_upper(uint32_t c)
{
    return character_in(jj_upper_ranges, jj_n_upper, c);
}

bool jj_is_lower(uint32_t c)
{
    return character_in(jj_lower_ranges, jj_n_lower, c);
}

bool jj_is_printable(uint32_t c)
{
    if (c < 0x7f) return c >= 0x20;
    return !character_in(jj_unprintable_ranges, jj_n_unprintable, c);
}

static uint32_t map_simple(const struct jj_case_range *r, size_t n, uint32_t c)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (r[mid].last < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == n || r[lo].first > c || (c - r[lo].first) % r[lo].stride) return c;
    return (uint32_t)((int32_t)c + r[lo].delta);
}

size_t jj_case_map(enum jj_case to, uint32_t c, uint32_t out[3])
{
    static const struct {
        const struct jj_case_range *ranges;
        const size_t *n;
        const struct jj_case_special *specials;
        const size_t *n_specials;
    } maps[] = {
        [JJ_UPPER] = {jj_to_upper_ranges, &jj_n_to_upper, jj_to_upper_specials, &jj_n_to_upper_specials},
        [JJ_LOWER] = {jj_to_lower_ranges, &jj_n_to_lower, jj_to_lower_specials, &jj_n_to_lower_specials},
        [JJ_TITLE] = {jj_to_title_ranges, &jj_n_to_title, jj_to_title_specials, &jj_n_to_title_specials},
    };
    if (c >= 0x80) {
        for (size_t i = 0; i < *maps[to].n_specials; i++) {
            const struct jj_case_special *s = &maps[to].specials[i];
            if (s->from != c) continue;
            size_t n = 0;
            while (n < 3 && s->to[n]) {
                out[n] = s->to[n];
                n++;
            }
            return n;
        }
    }
    out[0] = map_simple(maps[to].ranges, *maps[to].n, c);
    return 1;
}

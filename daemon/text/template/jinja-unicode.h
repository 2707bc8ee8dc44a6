/* SPDX-License-Identifier: MIT */
#pragma once
/* Properties of characters as in Python 3.11 (Unicode 14). tests/text/template/make-unicode.py makes the tables. */
#include "daemon/text/tokenizer/characters.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The characters first, first + stride, … last map to themselves + delta. */
struct jj_case_range {
    uint32_t first, last;
    int32_t delta;
    uint32_t stride;
};

/* A character that maps to several. */
struct jj_case_special {
    uint32_t from, to[3];
};

extern const struct character_range jj_alpha_ranges[], jj_numeric_ranges[], jj_digit_ranges[], jj_decimal_ranges[],
    jj_cased_ranges[], jj_upper_ranges[], jj_lower_ranges[], jj_unprintable_ranges[];
extern const size_t jj_n_alpha, jj_n_numeric, jj_n_digit, jj_n_decimal, jj_n_cased, jj_n_upper, jj_n_lower,
    jj_n_unprintable;
extern const struct jj_case_range jj_to_upper_ranges[], jj_to_lower_ranges[], jj_to_title_ranges[];
extern const size_t jj_n_to_upper, jj_n_to_lower, jj_n_to_title;
extern const struct jj_case_special jj_to_upper_specials[], jj_to_lower_specials[], jj_to_title_specials[];
extern const size_t jj_n_to_upper_specials, jj_n_to_lower_specials, jj_n_to_title_specials;

bool jj_is_space(uint32_t c);
bool jj_is_alpha(uint32_t c);
bool jj_is_numeric(uint32_t c);
bool jj_is_digit(uint32_t c);
bool jj_is_decimal(uint32_t c);
bool jj_is_cased(uint32_t c); /* upper, lower or title case */
bool jj_is_upper(uint32_t c);
bool jj_is_lower(uint32_t c);
bool jj_is_printable(uint32_t c);

enum jj_case { JJ_UPPER, JJ_LOWER, JJ_TITLE };

/* The case mapping of one character, without context. Returns the number of characters in out (1 to 3). */
size_t jj_case_map(enum jj_case to, uint32_t c, uint32_t out[3]);

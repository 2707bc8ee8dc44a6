/* SPDX-License-Identifier: MIT */
#pragma once
/* Properties of characters as WordPiece needs them (Unicode 15.1, whatever the system's libraries know).
 * tests/text/tokenizer/make-characters.py makes the tables. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct character_range {
    uint32_t first, last;
};

/* The characters first, first + step, … last become themselves + delta. */
struct character_case {
    uint32_t first, last, step;
    int32_t delta;
};

struct character_pair {
    uint32_t from, to;
};

extern const struct character_range characters_control[], characters_mark[], characters_punctuation[];
extern const struct character_case characters_lower[];
extern const struct character_pair characters_base[];
extern const size_t characters_n_control, characters_n_mark, characters_n_punctuation, characters_n_lower,
    characters_n_base;

/* Is @c in one of the @n ranges, which ascend? */
bool character_in(const struct character_range *list, size_t n, uint32_t c);

bool character_is_space(uint32_t c);       /* White_Space */
bool character_is_control(uint32_t c);     /* general categories Cc, Cf, Co, Cs */
bool character_is_mark(uint32_t c);        /* M */
bool character_is_punctuation(uint32_t c); /* P */
bool character_is_ideograph(uint32_t c);   /* Chinese, in the blocks that BERT's tokenizer lists */
uint32_t character_lower(uint32_t c);      /* one character, without context */
uint32_t character_base(uint32_t c);       /* the first character of the canonical decomposition */

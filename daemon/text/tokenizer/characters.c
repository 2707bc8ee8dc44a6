/* SPDX-License-Identifier: MIT */
#include "daemon/text/tokenizer/characters.h"

bool character_in(const struct character_range *list, size_t n, uint32_t c)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (list[mid].last < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && list[lo].first <= c;
}

bool character_is_space(uint32_t c)
{
    static const struct character_range spaces[] = {
        {0x9, 0xd},       {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
        {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}};
    return character_in(spaces, sizeof(spaces) / sizeof(*spaces), c);
}

bool character_is_control(uint32_t c)
{
    return character_in(characters_control, characters_n_control, c);
}

bool character_is_mark(uint32_t c)
{
    return character_in(characters_mark, characters_n_mark, c);
}

bool character_is_punctuation(uint32_t c)
{
    return character_in(characters_punctuation, characters_n_punctuation, c);
}

bool character_is_ideograph(uint32_t c)
{
    /* U+2B920 is U+2B820 in the first BERT; the fast tokenizers, and llama.cpp with them, have it so. */
    static const struct character_range blocks[] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},
                                                    {0x20000, 0x2a6df}, {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f},
                                                    {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};
    return character_in(blocks, sizeof(blocks) / sizeof(*blocks), c);
}

uint32_t character_lower(uint32_t c)
{
    size_t lo = 0, hi = characters_n_lower;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (characters_lower[mid].last < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    const struct character_case *r = &characters_lower[lo];
    if (lo == characters_n_lower || c < r->first || (c - r->first) % r->step) return c;
    return (uint32_t)((int32_t)c + r->delta);
}

uint32_t character_base(uint32_t c)
{
    /* A Hangul syllable is one of 19 first letters with 21 * 28 vowels and last letters (Unicode 15, 3.12). */
    if (c >= 0xac00 && c <= 0xd7a3) return 0x1100 + (c - 0xac00) / (21 * 28);
    size_t lo = 0, hi = characters_n_base;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (characters_base[mid].from < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < characters_n_base && characters_base[lo].from == c ? characters_base[lo].to : c;
}

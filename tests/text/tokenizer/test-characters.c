/* SPDX-License-Identifier: MIT */
/* Tables of characters: some of each kind, the ends of ranges, and their order, which the searches rely on. */
#include "daemon/text/tokenizer/characters.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void in_order(const struct character_range *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_true(list[i].first <= list[i].last && list[i].last < 0x110000);
        if (i) assert_true(list[i - 1].last + 1 < list[i].first); /* else they would be one */
    }
}

static void order(void **state)
{
    in_order(characters_control, characters_n_control);
    in_order(characters_mark, characters_n_mark);
    in_order(characters_punctuation, characters_n_punctuation);
    for (size_t i = 1; i < characters_n_lower; i++)
        assert_true(characters_lower[i - 1].last < characters_lower[i].first);
    for (size_t i = 1; i < characters_n_base; i++) assert_true(characters_base[i - 1].from < characters_base[i].from);
}

static void kinds(void **state)
{
    static const uint32_t spaces[] = {9, 13, ' ', 0x85, 0xa0, 0x1680, 0x200a, 0x2029, 0x3000};
    static const uint32_t none[] = {8, 14, '!', 0x84, 0x180e, 0x200b, 0x2060, 0x10ffff};
    for (size_t i = 0; i < sizeof(spaces) / sizeof(*spaces); i++) assert_true(character_is_space(spaces[i]));
    for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) assert_false(character_is_space(none[i]));
    assert_true(character_is_control(0) && character_is_control(0x1f) && character_is_control(0xad));
    assert_true(character_is_control(0x200d) && character_is_control(0xe000) && character_is_control(0x10fffd));
    assert_false(character_is_control(' ') || character_is_control(0x378) || character_is_control(0x10ffff));
    assert_true(character_is_mark(0x300) && character_is_mark(0x36f) && character_is_mark(0x903));
    assert_false(character_is_mark(0x2ff) || character_is_mark(0x370) || character_is_mark('a'));
    assert_true(character_is_punctuation('!') && character_is_punctuation('_') && character_is_punctuation(0x3002));
    assert_false(character_is_punctuation('$') || character_is_punctuation('a') || character_is_punctuation(0x2581));
    assert_true(character_is_ideograph(0x4e00) && character_is_ideograph(0x9fff) && character_is_ideograph(0x2fa1f));
    assert_false(character_is_ideograph(0x4dff) || character_is_ideograph(0xac00) || character_is_ideograph(0x2b820));
}

static void changes(void **state)
{
    static const uint32_t lower[][2] = {{'A', 'a'},     {'Z', 'z'},      {'a', 'a'},         {'[', '['},
                                        {0x130, 'i'},   {0x178, 0xff},   {0x100, 0x101},     {0x101, 0x101},
                                        {0x1e9e, 0xdf}, {0x2126, 0x3c9}, {0x10400, 0x10428}, {0x1f88, 0x1f80}};
    static const uint32_t base[][2] = {{0xe9, 'e'},        {0xc5, 'A'},      {0x212b, 'A'},    {0x1ed9, 'o'},
                                       {0xac00, 0x1100},   {0xd7a3, 0x1112}, {0xae4c, 0x1101}, {0xf900, 0x8c48},
                                       {0x2fa1d, 0x2a600}, {0xfb01, 0xfb01}, {'e', 'e'},       {0x301, 0x301}};
    for (size_t i = 0; i < sizeof(lower) / sizeof(*lower); i++)
        assert_int_equal(character_lower(lower[i][0]), lower[i][1]);
    for (size_t i = 0; i < sizeof(base) / sizeof(*base); i++) assert_int_equal(character_base(base[i][0]), base[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(order), cmocka_unit_test(kinds), cmocka_unit_test(changes)};
    return cmocka_run_group_tests_name("characters", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "libcommon/utf8.h"
#include "tests/libcommon/check.h"
#include <string.h>

/* Each is invalid at the offset. */
static const struct {
    const char *bytes;
    size_t n, at;
} invalid[] = {
    {"\x80", 1, 0},                 /* a continuation alone */
    {"ab\xc0\x80", 4, 2},           /* overlong NUL */
    {"\xc1\xbf", 2, 0},             /* overlong U+7F */
    {"\xe0\x9f\xbf", 3, 0},         /* overlong U+7FF */
    {"\xf0\x8f\xbf\xbf", 4, 0},     /* overlong U+FFFF */
    {"x\xed\xa0\x80", 4, 1},        /* surrogate D800 */
    {"\xed\xbf\xbf", 3, 0},         /* surrogate DFFF */
    {"\xf4\x90\x80\x80", 4, 0},     /* U+110000 */
    {"\xf5\x80\x80\x80", 4, 0},     /* a byte that is in no text */
    {"\xff", 1, 0},                 /* likewise */
    {"\xc3(", 2, 0},                /* no continuation */
    {"\xe2\x82(", 3, 0},            /* no second continuation */
    {"ok\xe2\x82", 4, 2},           /* cut off */
    {"\xf0\x9f\x98", 3, 0},         /* cut off */
    {"\xf0\x9f\x98\x80\xf0", 5, 4}, /* one good, one cut off */
};

static void every_scalar_value_goes_round(void **state)
{
    char s[4];

    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        size_t n;
        uint32_t back = ~c;

        if (c >= 0xd800 && c <= 0xdfff) continue;
        n = utf8_encode(s, c);
        assert_int_equal(n, c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4);
        if (utf8_decode(s, n, &back) != n || back != c || utf8_check(s, n) != n || utf8_whole(s, n) != n)
            fail_msg("U+%04X", (unsigned)c);
        for (size_t cut = 1; cut < n; cut++)
            if (utf8_decode(s, cut, &back) || utf8_check(s, cut) != 0 || utf8_whole(s, cut) != 0)
                fail_msg("U+%04X cut to %zu", (unsigned)c, cut);
    }
}

static void invalid_bytes_are_found(void **state)
{
    uint32_t cp;

    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++) {
        assert_int_equal(utf8_check(invalid[i].bytes, invalid[i].n), invalid[i].at);
        assert_int_equal(utf8_decode(invalid[i].bytes + invalid[i].at, invalid[i].n - invalid[i].at, &cp), 0);
    }
}

/* Long runs of ASCII are read in groups: a wrong byte is found at every place of a group. */
static void invalid_bytes_are_found_at_each_place(void **state)
{
    char s[200];

    for (size_t n = 1; n <= sizeof s; n++)
        for (size_t at = 0; at < n; at++) {
            memset(s, 'a', n);
            s[at] = '\x80';
            assert_int_equal(utf8_check(s, n), at);
            if (at + 1 == n) continue;
            memcpy(s + at, "\xc3\xa9", 2);
            assert_int_equal(utf8_check(s, n), n);
        }
}

static void surrogates_are_no_characters(void **state)
{
    char s[4];

    for (uint32_t c = 0xd800; c <= 0xdfff; c++) {
        assert_int_equal(utf8_encode(s, c), 3);
        assert_int_equal(utf8_check(s, 3), 0);
    }
}

static void whole_leaves_out_only_what_could_still_become_valid(void **state)
{
    assert_int_equal(utf8_whole("", 0), 0);
    assert_int_equal(utf8_whole("abc", 3), 3);
    assert_int_equal(utf8_whole("ab\xc3", 3), 2);
    assert_int_equal(utf8_whole("ab\xe2\x82", 4), 2);
    assert_int_equal(utf8_whole("ab\xf0\x9f\x98", 5), 2);
    assert_int_equal(utf8_whole("ab\xf0\x9f\x98\x80", 6), 6);
    /* can never become valid */
    assert_int_equal(utf8_whole("ab\x80", 3), 3);
    assert_int_equal(utf8_whole("ab\xc0", 3), 3);
    assert_int_equal(utf8_whole("ab\xed\xa0", 4), 4);
    assert_int_equal(utf8_whole("ab\xff", 3), 3);
    assert_int_equal(utf8_whole("\x80\x80\x80\x80", 4), 4);
    assert_int_equal(utf8_whole("\xe2\x82\xac\x82", 4), 4);
}

static void empty_text_is_valid_and_has_no_character(void **state)
{
    uint32_t cp;

    assert_int_equal(utf8_check("", 0), 0);
    assert_int_equal(utf8_decode("", 0, &cp), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scalar_value_goes_round),
        cmocka_unit_test(invalid_bytes_are_found),
        cmocka_unit_test(invalid_bytes_are_found_at_each_place),
        cmocka_unit_test(surrogates_are_no_characters),
        cmocka_unit_test(whole_leaves_out_only_what_could_still_become_valid),
        cmocka_unit_test(empty_text_is_valid_and_has_no_character),
    };

    return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}

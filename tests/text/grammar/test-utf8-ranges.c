/* SPDX-License-Identifier: MIT */
#include "daemon/text/grammar/utf8-ranges.h"
#include "libcommon/utf8.h"
#include "tests/libcommon/check.h"
#include <stdbool.h>

static unsigned matches(const struct utf8_sequence *seq, size_t n, uint32_t cp)
{
    uint8_t s[4];
    size_t len = utf8_encode((char *)s, cp);
    unsigned found = 0;
    for (size_t i = 0; i < n; i++) {
        bool in = seq[i].n == len;
        for (size_t k = 0; k < len && in; k++) in = s[k] >= seq[i].first[k] && s[k] <= seq[i].last[k];
        found += in;
    }
    return found;
}

static void check_range(uint32_t first, uint32_t last)
{
    struct utf8_sequence seq[UTF8_SEQUENCES_MAX];
    size_t n = utf8_ranges(first, last, seq);
    assert_true(n <= UTF8_SEQUENCES_MAX);
    for (uint32_t cp = 0; cp <= 0x10ffff; cp += cp < 0x3000 || cp > 0x10f000 ? 1 : 37) {
        bool in = cp >= first && cp <= last && (cp < 0xd800 || cp > 0xdfff);
        if (cp >= 0xd800 && cp <= 0xdfff) continue;
        assert_int_equal(matches(seq, n, cp), in);
    }
}

/* Each code point of a range matches exactly one sequence, others none. */
static void ranges_have_their_code_points(void **state)
{
    uint64_t random = 1;
    check_range(0, 0x10ffff);
    check_range(0, 0x7f);
    check_range(0x80, 0x80);
    check_range(0xd7ff, 0xe000);
    for (int i = 0; i < 60; i++) {
        uint32_t a = next_random(&random) % 0x110000, b = next_random(&random) % 0x110000;
        if (i % 2) b = a + b % 0x900 < 0x110000 ? a + b % 0x900 : a;
        check_range(a < b ? a : b, a < b ? b : a);
    }
    struct utf8_sequence seq[UTF8_SEQUENCES_MAX];
    assert_int_equal(utf8_ranges(0xd800, 0xdfff, seq), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranges_have_their_code_points)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "client/models/bar.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

#define LINE(want, ...)                                                                                                \
    do {                                                                                                               \
        char line[BAR_LINE];                                                                                           \
        assert_string_equal(bar_line(line, __VA_ARGS__), want);                                                        \
    } while (0)

static void test_lines(void **state)
{
    LINE("tiny [=========       ]  61% 12M/s 0:03", "tiny", 61u << 20, 100u << 20, 12 * 1048576.0, 40);
    LINE("tiny [           ]   0%", "tiny", 0, 100, 0, 24);
    LINE("tiny 1.5M 2K/s", "tiny", 3u << 19, 0, 2048, 40);
    LINE("tiny [====================] 100%", "tiny", 100, 100, 0, 33);
    LINE(" 50% 1M/s 1:02:03", "tiny", 3723u << 20, 7446ull << 20, 1048576, 18);
    LINE("", "tiny", 3723u << 20, 7446ull << 20, 1048576, 17);
}

/* Whatever the name, the numbers and the width are: it fits, and holds nothing that moves a cursor. */
static void test_every_width(void **state)
{
    static const char *const names[] = {"", "m", "grüße", "a\x1b[31mb\nc",
                                        "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"};
    static const uint64_t sizes[] = {0, 1, 999, 5000000000u, UINT64_MAX / 2, UINT64_MAX};
    static const double rates[] = {0, 0.1, 1, 3e9, 1e18};
    char line[BAR_LINE];

    for (unsigned width = 0; width < 400; width++)
        for (size_t n = 0; n < 5; n++)
            for (size_t d = 0; d < 6; d++)
                for (size_t t = 0; t < 6; t++)
                    for (size_t r = 0; r < 5; r++) {
                        bar_line(line, names[n], sizes[d], sizes[t], rates[r], width);
                        assert_true(strlen(line) < (width ? width : 1));
                        for (const char *p = line; *p; p++) assert_true(*p >= ' ' && *p < 0x7f);
                    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_every_width),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "client/batch/batch-meter.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

#define LINE(want, width, ...)                                                                                         \
    do {                                                                                                               \
        char line[BATCH_METER_LINE];                                                                                   \
        struct batch_meter m = {__VA_ARGS__};                                                                          \
        assert_string_equal(batch_meter_line(line, &m, 10000, width), want);                                           \
    } while (0)

static void test_lines(void **state)
{
    LINE("0 done", 80, .all_bytes = 0);
    LINE("[===============               ] 512 done 50% 312 tokens/s 0:10 left", 80, .answered = 512, .bytes = 500,
         .all_bytes = 1000, .rate = 312);
    LINE("[=====      ] 40 done (2 failed) 50% 312 tokens/s 0:10 left", 60, .answered = 40, .failed = 2, .bytes = 500,
         .all_bytes = 1000, .rate = 312);
    LINE("512 done 50% 0:10 left", 30, .answered = 512, .bytes = 500, .all_bytes = 1000, .rate = 312);
    LINE("512 done", 12, .answered = 512, .bytes = 500, .all_bytes = 1000, .rate = 312);
    LINE("", 8, .answered = 512, .bytes = 500, .all_bytes = 1000, .rate = 312);
    /* What an earlier run has done counts as done, but not for the time left. */
    LINE("100 done 75% 0:10 left", 25, .answered = 50, .skipped = 50, .skipped_bytes = 500, .bytes = 250,
         .all_bytes = 1000);
    LINE("3 done 17 tokens/s", 80, .answered = 3, .bytes = 90, .rate = 17);
}

static void test_every_width(void **state)
{
    static const uint64_t sizes[] = {0, 1, 999, 5000000000u, UINT64_MAX / 4};
    char line[BATCH_METER_LINE];
    for (unsigned width = 1; width < 300; width++)
        for (size_t a = 0; a < 5; a++)
            for (size_t b = 0; b < 5; b++)
                for (size_t c = 0; c < 5; c++) {
                    struct batch_meter m = {.answered = sizes[a],
                                            .failed = sizes[c],
                                            .bytes = sizes[b],
                                            .all_bytes = sizes[c],
                                            .rate = (double)sizes[a]};
                    batch_meter_line(line, &m, 1 << 30, width);
                    assert_true(strlen(line) < width);
                }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_every_width)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "daemon/output/line-limit.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* The result is the same for pieces of any length. */
static void lines(uint32_t most, const char *text, const char *shown)
{
    for (size_t piece = 1; piece <= strlen(text); piece++) {
        struct line_limit l = {.left = most};
        struct buf out = BUF_INIT;
        bool ended = false;
        for (size_t i = 0; i < strlen(text) && !ended; i += piece) {
            size_t before = out.len, n = strlen(text) - i < piece ? strlen(text) - i : piece;
            assert_int_equal(buf_append(&out, text + i, n), 0);
            ended = line_limit_cut(&l, &out, before);
        }
        assert_string_equal(out.data, shown);
        assert_int_equal(ended, strlen(shown) < strlen(text));
        buf_fini(&out);
    }
}

static void test_lines(void **state)
{
    lines(0, "a\nb\nc\n", "a\nb\nc\n");
    lines(1, "a\nb\nc\n", "a");
    lines(2, "a\nb\nc\n", "a\nb");
    lines(3, "a\nb\nc\n", "a\nb\nc");
    lines(4, "a\nb\nc\n", "a\nb\nc\n");
    lines(1, "\n  \n  a b\nc\n", "\n  \n  a b");
    lines(2, "a\n\nc\n", "a\n");
    lines(1, "abc", "abc");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

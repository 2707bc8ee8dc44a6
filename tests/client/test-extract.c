/* SPDX-License-Identifier: MIT */
/* Which lines of an answer are its first block of code, however it is cut into pieces. */
#include "client/extract.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

static void extracts(const char *text, const char *want, enum extract_where where)
{
    size_t len = strlen(text);

    for (size_t piece = 1; piece <= len; piece++) {
        struct extract x = {0};
        struct buf out = BUF_INIT;

        for (size_t at = 0; at < len; at += piece)
            assert_int_equal(extract_text(&x, &out, text + at, len - at < piece ? len - at : piece), 0);
        assert_int_equal(extract_end(&x, &out), 0);
        assert_string_equal(out.data ? out.data : "", want);
        assert_int_equal(x.where, where);
        extract_fini(&x);
        buf_fini(&out);
    }
}

static void test_blocks(void **state)
{
    extracts("Here:\n\n```c\nint x;\n\n  int y;\n```\nand\n```\nmore\n```\n", "int x;\n\n  int y;\n", EXTRACT_BEHIND);
    extracts("~~~\na\n```\nb\n~~~", "a\n```\nb\n", EXTRACT_BEHIND);
    extracts("````\n```\n````\n", "```\n", EXTRACT_BEHIND);
    extracts("```\na\n``` b\n~~~\n  ```  \n", "a\n``` b\n~~~\n", EXTRACT_BEHIND);
    extracts("```\n```\n", "", EXTRACT_BEHIND);
    extracts("- so:\n  ```sh\n  ls\n    -l\n x\n  ```\n", "ls\n  -l\nx\n", EXTRACT_BEHIND);
    extracts("```\r\na\r\n```\r\n", "a\r\n", EXTRACT_BEHIND);
}

static void test_cut_short(void **state)
{
    extracts("```py\nprint(", "print(", EXTRACT_INSIDE);
    extracts("```py\nprint()\n", "print()\n", EXTRACT_INSIDE);
    extracts("```py", "", EXTRACT_INSIDE);
}

static void test_no_block(void **state)
{
    extracts("plain `code` and\n``no``\n", "", EXTRACT_BEFORE);
    extracts("```a`b\nx\n", "", EXTRACT_BEFORE);
    extracts("x ```\ny\n", "", EXTRACT_BEFORE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_no_block),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Markdown for a terminal: the styled parts, and the complete text for every split into pieces. */
#include "client/render.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

static uint32_t seed = 1;

static uint32_t roll(uint32_t n)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % n;
}

/* @text in pieces of 1 to @most bytes. */
static void show(struct buf *out, const char *text, size_t len, uint32_t most)
{
    struct render r = {0};

    buf_clear(out);
    for (size_t at = 0, n; at < len; at += n) {
        n = most ? 1 + roll(most) : len;
        if (n > len - at) n = len - at;
        assert_int_equal(render_text(&r, out, text + at, n), 0);
    }
    assert_int_equal(render_end(&r, out), 0);
}

/* The escape sequences as short words: <1> for ESC [0;1m, <> for ESC [0m. */
static void readable(struct buf *out, const struct buf *in)
{
    buf_clear(out);
    for (const char *p = in->data; p && *p; p++) {
        if (*p != '\x1b') {
            buf_append(out, p, 1);
            continue;
        }
        assert_memory_equal(p, "\x1b[0", 3);
        buf_puts(out, "<");
        for (p += 3; *p != 'm'; p++)
            if (p[-1] != '0' || *p != ';') buf_append(out, p, 1);
        buf_puts(out, ">");
    }
}

static void check(const char *text, const char *want)
{
    struct buf out = BUF_INIT, words = BUF_INIT;

    for (uint32_t most = 0; most < 4; most++) {
        show(&out, text, strlen(text), most);
        readable(&words, &out);
        assert_string_equal(words.data, want);
    }
    buf_fini(&out);
    buf_fini(&words);
}

static void test_headings(void **state)
{
    check("# One\ntwo\n", "<1;35># One<>\ntwo\n");
    check("###### six", "<1;35>###### six<>");
    check("####### seven\n#none\na # b\n    # code\n", "####### seven\n#none\na # b\n    # code\n");
}

static void test_emphasis(void **state)
{
    check("a *b* c", "a <3>*b*<> c");
    check("**b** and __b__", "<1>**b**<> and <1>__b__<>");
    check("***x***", "<1;3>***x***<>");
    check("**a *b* c**", "<1>**a <1;3>*b*<1> c**<>");
    check("* item\n* **it**em", "* item\n* <1>**it**<>em");
    check("2 * 3 * 4, snake_case_name, a_b", "2 * 3 * 4, snake_case_name, a_b");
    check("\\*not\\* this", "\\*not\\* this");
    check("*open\nnext", "<3>*open<>\nnext");
    check("***\n---\n", "***\n---\n");
    check("\xc3\xbc_x_ _\xc3\xbc_", "\xc3\xbc_x_ <3>_\xc3\xbc_<>");
}

static void test_code(void **state)
{
    check("a `b*c*` d", "a <36>`b*c*`<> d");
    check("``a ` b`` c", "<36>``a ` b``<> c");
    check("`open\nnext", "<36>`open<>\nnext");
}

static void test_blocks(void **state)
{
    check("```c\nint *a;\n# x\n```\nb *c*\n", "<2>```c<>\n<36>int *a;\n# x\n<2>```<>\nb <3>*c*<>\n");
    check("````\n```\n````\nx", "<2>````<>\n<36>```\n<2>````<>\nx");
    check("~~~\n```\n~~~\nx", "<2>~~~<>\n<36>```\n<2>~~~<>\nx");
    check("```\nx ``` y\n    ```\n", "<2>```<>\n<36>x ``` y\n    ```\n<>");
    check("- a\n  ```sh\n  ls\n  ```\n", "- a\n  <2>```sh<>\n<36>  ls\n  <2>```<>\n");
    check("```\nnever closed", "<2>```<>\n<36>never closed<>");
}

static void test_plain_text_is_left_alone(void **state)
{
    check("Nothing to see, 100% plain.\n\n\ttab\r\nend", "Nothing to see, 100% plain.\n\n\ttab\r\nend");
}

static void test_pending_marks_are_printed(void **state)
{
    check("*", "*");
    check("a **", "a **");
    check("```", "<2>```<>");
    check("\\", "\\");
}

/* Random texts of what has a meaning: every cut gives the same, and without escapes it is the text. */
static void test_any_cut_gives_the_same_and_the_whole_text(void **state)
{
    static const char *const words[] = {"*",
                                        "**",
                                        "_",
                                        "`",
                                        "```",
                                        "~~~",
                                        "#",
                                        "## ",
                                        "\n",
                                        "\n\n",
                                        " ",
                                        "    ",
                                        "\\",
                                        "a",
                                        "b c",
                                        "\xc3\xbc",
                                        "\xf0\x9f\x94\xa5",
                                        "-",
                                        "1.",
                                        "\t",
                                        "\r\n"};
    struct buf text = BUF_INIT, whole = BUF_INIT, cut = BUF_INIT, plain = BUF_INIT;

    for (int round = 0; round < 20000; round++) {
        buf_clear(&text);
        buf_clear(&plain);
        for (uint32_t n = 1 + roll(40); n; n--) buf_puts(&text, words[roll(sizeof words / sizeof *words)]);
        show(&whole, text.data, text.len, 0);
        show(&cut, text.data, text.len, 1 + roll(5));
        assert_string_equal(cut.data, whole.data);
        for (const char *p = whole.data; *p; p++) {
            if (*p == '\x1b')
                p = strchr(p, 'm');
            else
                buf_append(&plain, p, 1);
        }
        assert_string_equal(plain.data, text.data);
        /* The terminal is left as it was. */
        const char *last = strrchr(whole.data, '\x1b');
        if (last) assert_memory_equal(last, "\x1b[0m", 4);
    }
    buf_fini(&text);
    buf_fini(&whole);
    buf_fini(&cut);
    buf_fini(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headings),
        cmocka_unit_test(test_emphasis),
        cmocka_unit_test(test_code),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_plain_text_is_left_alone),
        cmocka_unit_test(test_pending_marks_are_printed),
        cmocka_unit_test(test_any_cut_gives_the_same_and_the_whole_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

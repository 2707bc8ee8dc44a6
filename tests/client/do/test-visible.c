/* SPDX-License-Identifier: MIT */
/* visible.c: what a terminal does not show as it is. */
#include "client/do/visible.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

static void check(const char *text, size_t at, const char *escaped)
{
    struct buf out = BUF_INIT;
    size_t n = strlen(text);
    assert_int_equal(visible_check(text, n), at);
    assert_int_equal(visible_escape(&out, text, n), 0);
    assert_string_equal(out.data, escaped);
    buf_fini(&out);
}

static void what_is_shown_stays(void **state)
{
    static const char text[] = "find . -name 'a*' \\( -o \\) | grep \"\xc3\xbc\xe6\x97\xa5\xf0\x9f\x98\x80\" >~/x";
    check(text, strlen(text), text);
}

static void what_hides_is_escaped(void **state)
{
    check("ls\nrm -r x", 2, "ls<U+000A>rm -r x");
    check("a\x1b[8mb", 1, "a<U+001B>[8mb");
    check("a\rb\tc\x7f", 1, "a<U+000D>b<U+0009>c<U+007F>");
    check("rm \xe2\x80\xaetxt.x", 3, "rm <U+202E>txt.x"); /* right-to-left override */
    check("a\xe2\x81\xa6"
          "b\xe2\x80\x8f\xd8\x9c",
          1, "a<U+2066>b<U+200F><U+061C>");
    check("r\xe2\x80\x8bm", 1, "r<U+200B>m"); /* zero width space */
    check("rm\xc2\xa0-r", 2, "rm<U+00A0>-r"); /* no-break space */
    check("a\xef\xbb\xbf\xc2\xad\xef\xb8\x8f", 1, "a<U+FEFF><U+00AD><U+FE0F>");
    check("a\xf3\xa0\x81\x81", 1, "a<U+E0041>");            /* a tag */
    check("a\xc2\x85\xe2\x80\xa8", 1, "a<U+0085><U+2028>"); /* other ends of lines */
    check("a\xff\xc3", 1, "a<byte FF><byte C3>");
    check("\xee\x80\x80", 0, "<U+E000>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_shown_stays), cmocka_unit_test(what_hides_is_escaped)};
    return cmocka_run_group_tests_name("do-visible", tests, NULL, NULL);
}

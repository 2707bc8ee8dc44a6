/* SPDX-License-Identifier: MIT */
/* parts.c: what of a template's text is a variable. */
#include "client/templates/parts.h"
#include "libcommon/buf.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

/* The parts of @text: texts as they are, <input>, <word 1>, <named x>. */
static void check(const char *text, const char *expected)
{
    static const char *const kinds[] = {"text ", "input ", "word ", "named "};
    struct buf got = BUF_INIT;
    assert_int_equal(buf_puts(&got, ""), 0);
    while (*text) {
        struct template_part p;
        text += template_part(text, &p);
        if (p.kind == TEMPLATE_TEXT)
            assert_int_equal(buf_append(&got, p.text, p.len), 0);
        else
            assert_int_equal(buf_printf(&got, "<%s%.*s>", kinds[p.kind], (int)p.len, p.text), 0);
    }
    assert_string_equal(got.data, expected);
    buf_fini(&got);
}

static void variables(void **state)
{
    check("", "");
    check("{input}", "<input input>");
    check("a {1} b {12}{to}c", "a <word 1> b <word 12><named to>c");
    check("{a-b_C9}", "<named a-b_C9>");
    check("{inputs}{Input}", "<named inputs><named Input>");
    check("{0}{007}", "<word 0><word 007>"); /* refused later, with an error message */
}

static void other_braces_are_text(void **state)
{
    static const char *const same[] = {"{",     "}",    "{}",          "{ input }",  "{\"a\": {\"b\": 1}}",
                                       "{a b}", "{1a}", "{-a}",        "{a",         "if (x) {",
                                       "{{",    "{{}}", "{{ input }}", "{\xc3\xbc}", "f() {return 1;}"};
    for (size_t i = 0; i < sizeof(same) / sizeof(*same); i++) check(same[i], same[i]);
}

static void doubled_braces_quote(void **state)
{
    check("{{input}}", "{input}");
    check("{{1}} {{to}}{to}", "{1} {to}<named to>");
    check("{{{to}}}", "{{to}}");
    check("{{to}", "{<named to>");
}

static void long_names_are_text(void **state)
{
    char name[200] = "{";
    memset(name + 1, 'a', 100);
    strcpy(name + 101, "}");
    check(name, name);
}

static void names(void **state)
{
    assert_true(template_is_name("to", 2) && template_is_name("_a-1", 4) && template_is_name("inputs", 6));
    assert_false(template_is_name("", 0) || template_is_name("1a", 2) || template_is_name("a b", 3));
    assert_false(template_is_name("input", 5) || template_is_name("a=", 2));
    assert_true(template_takes_input("x{input}") && template_takes_input("{{{input}"));
    assert_false(template_takes_input("{{input}}") || template_takes_input("{in}") || template_takes_input(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables),
        cmocka_unit_test(other_braces_are_text),
        cmocka_unit_test(doubled_braces_quote),
        cmocka_unit_test(long_names_are_text),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests_name("template-parts", tests, NULL, NULL);
}

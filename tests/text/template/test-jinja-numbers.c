/* SPDX-License-Identifier: MIT */
/* The largest and the smallest integers in every operation that computes with integers. The results are those of
 * Jinja2 3.1.2. NULL is an error: Python's integer would exceed 64 bits, or its text would be too long. No case may be
 * undefined in C; a build with -fsanitize=undefined checks it. */
#include "daemon/text/template/template.h"
#include "libcommon/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MAX "9223372036854775807"
#define MIN "(-9223372036854775807-1)"

static const struct {
    const char *src, *want;
} cases[] = {
    {"range(" MIN "," MAX ",(4611686018427387904))|list",
     "[-9223372036854775808, -4611686018427387904, 0, 4611686018427387904]"},
    {"range(" MAX "," MIN ",(-4611686018427387904))|list",
     "[9223372036854775807, 4611686018427387903, -1, -4611686018427387905]"},
    {"range(" MIN "," MAX "," MAX ")|list", "[-9223372036854775808, -1, 9223372036854775806]"},
    {"range(" MAX "," MIN "," MIN ")|list", "[9223372036854775807, -1]"},
    {"'abcdefgh'[" MIN ":" MAX "]", "abcdefgh"},
    {"'abcdefgh'[" MAX "::" MIN "]", "h"},
    {"[1,2,3,4,5][" MIN ":" MAX "]", "[1, 2, 3, 4, 5]"},
    {"'abc'[::" MIN "]", "c"},
    {"range(5)[::" MAX "]|list", "[0]"},
    {MIN "//(-1)", NULL},
    {MIN "%(-1)", "0"},
    {MIN "//" MAX, "-2"},
    {MIN "%" MAX, "9223372036854775806"},
    {MAX "//(-2)", "-4611686018427387904"},
    {MAX "%(-2)", "-1"},
    {MAX "/" MIN, "-1.0"},
    {"-" MIN, NULL},
    {MIN "|abs", NULL},
    {MAX "+1", NULL},
    {MIN "-1", NULL},
    {MAX "*(-1)", "-9223372036854775807"},
    {MIN "*(-1)", NULL},
    {"(-2)**(63)", "-9223372036854775808"},
    {"(2)**(63)", NULL},
    {"(2)**(62)", "4611686018427387904"},
    {MIN "|float|int", "-9223372036854775808"},
    {MAX "|float|int", NULL},
    {"'" MAX "'|int", "9223372036854775807"},
    {"'0x" MAX "'|int(0,16)", NULL},
    {"'" MAX ".5'|int", NULL},
    {MIN "|round(-20)", "0"},
    {MAX "|round(-1)", NULL},
    {"4611686018427387904|round(-1)", "4611686018427387900"},
    {MAX "|round(-20)", "0"},
    {"'abc'.replace('a','b'," MIN ")", "bbc"},
    {"'abc'|replace('','b'," MIN ")", "babbbcb"},
    {"'a b c'.split(' '," MIN ")", "['a', 'b', 'c']"},
    {"'abc'.rfind('b'," MIN "," MIN ")", "-1"},
    {"'{:,}'.format(" MIN ")", "-9,223,372,036,854,775,808"},
    {"'%x'%" MIN, "-8000000000000000"},
    {"'%5.3d'%" MIN, "-9223372036854775808"},
    {"'abcdef'|truncate(" MAX ")", "abcdef"},
    {"'abcdefghij'|truncate(3,true,''," MAX ")", "abcdefghij"},
    {MIN " is even", "True"},
    {MIN " is divisibleby (-1)", "True"},
    {"'ab'.center(" MIN ")", "ab"},
    {"'a\\nb'|indent(" MIN ")", "a\nb"},
    {"[1]|tojson(indent=" MIN ")", "[\n1\n]"},
    {"'-1'.zfill(" MIN ")", "-1"},
    {"[" MAX ",1]|sum", NULL},
    {"'%*d'%(" MIN ",5)", NULL},
    {"'%*d'%(" MAX ",5)", NULL},
    {"'ab'.center(" MAX ")", NULL},
    {"'ab'|indent(" MAX ",true)", NULL},
    {"15|round(-1)", "20"},
    {"25|round(-1)", "20"},
    {"(-25)|round(-1)", "-20"},
    {"'99999999999999999999'|int", NULL},
    {"'-9223372036854775808'|int", "-9223372036854775808"},
    {"'1e30'|int(7)", NULL},
    {"'a\tb'.expandtabs(" MAX ")", NULL},
    {"[1,2]|batch(" MAX ")|list", "[[1, 2]]"},
    {"[1,2]|slice(" MIN ")|list", "[]"},
};

static void as_python_has_them(void **state)
{
    json_t *vars = json_object();
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct template *t = NULL;
        struct text out = {0};
        char src[256];
        int n = snprintf(src, sizeof(src), "{{ %s }}", cases[i].src);
        int r = template_new(&t, src, (size_t)n);
        if (r == 0) r = template_render(t, vars, NULL, 0, NULL, &out);
        if (r == 0 && !cases[i].want) fail_msg("%s gives %s, not an error", src, out.s.data);
        if (r < 0 && cases[i].want) fail_msg("%s: %s", src, error_text(r));
        if (r == 0 && strcmp(out.s.data ? out.s.data : "", cases[i].want) != 0)
            fail_msg("%s gives %s, not %s", src, out.s.data, cases[i].want);
        text_fini(&out);
        template_free(t);
    }
    json_decref(vars);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_python_has_them)};
    return cmocka_run_group_tests_name("jinja-numbers", tests, NULL, NULL);
}

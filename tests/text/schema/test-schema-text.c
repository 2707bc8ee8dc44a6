/* SPDX-License-Identifier: MIT */
#include "tests/libcommon/check.h"
#include "tests/text/schema/schema-check.h"
#include <errno.h>

static void lengths_count_characters(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'type':'string'}",
         {"''", "'a\\n\\u0000\\/'", "'\xf0\x9f\x98\x80'"},
         {"'a", "'\n'", "'\\x'", "'\\ud800'", "'\xff'"}},
        {"{'type':'string','minLength':2,'maxLength':3}",
         {"'ab'", "'a\\nb'", "'\xf0\x9f\x98\x80\\ud83d\\ude00'", "'\\\\\\\\'"},
         {"'a'", "'abcd'", "'\\n'", "'\\u00e9'"}},
        {"{'type':'string','maxLength':0}", {"''"}, {"'a'"}},
        {"{'type':'string','minLength':1.0}", {"'a'"}, {"''"}},
        {"{'type':'string','maxLength':100000}", {"'abc'"}, {"1"}},
    };
    CHECK(cases);
}

static void patterns_are_looked_for(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'type':'string','pattern':'b+'}", {"'abc'", "'b'"}, {"'ac'", "''"}},
        {"{'type':'string','pattern':'^\\\\S+$','minLength':3,'maxLength':4}",
         {"'abc'", "'abcd'"},
         {"'ab'", "'a c'", "'abcde'"}},
        {"{'type':'string','allOf':[{'pattern':'a'},{'pattern':'b'}]}", {"'ab'", "'bxa'"}, {"'a'", "'b'"}},
        {"{'pattern':'^a'}", {"'a'", "1", "null"}, {"'b'"}},
        {"{'type':'string','pattern':'^\\u00e9\\n$'}", {"'\xc3\xa9\\n'", "'\\u00e9\\u000A'"}, {"'e\\n'"}},
    };
    CHECK(cases);
    schema_check_refused("{'items':{'pattern':'\\\\bword'}}", -ENOTSUP,
                         "pattern cannot be enforced at #/items/pattern: the escape \\b");
    schema_check_refused("{'pattern':'('}", -ENOTSUP, "#/pattern");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_count_characters),
        cmocka_unit_test(patterns_are_looked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/uri.h"
#include "tests/libcommon/check.h"
#include <string.h>

/* RFC 3986, section 5.4. */
static void references_are_resolved(void **state)
{
    (void)state;
    static const struct {
        const char *ref, *out;
    } cases[] = {{"g:h", "g:h"},
                 {"g", "http://a/b/c/g"},
                 {"./g", "http://a/b/c/g"},
                 {"g/", "http://a/b/c/g/"},
                 {"/g", "http://a/g"},
                 {"//g", "http://g"},
                 {"?y", "http://a/b/c/d;p?y"},
                 {"g?y", "http://a/b/c/g?y"},
                 {"", "http://a/b/c/d;p?q"},
                 {".", "http://a/b/c/"},
                 {"..", "http://a/b/"},
                 {"../g", "http://a/b/g"},
                 {"../..", "http://a/"},
                 {"../../g", "http://a/g"},
                 {"../../../g", "http://a/g"},
                 {"g#s", "http://a/b/c/g"},
                 {"/./g", "http://a/g"},
                 {"g/../h", "http://a/b/c/h"},
                 {"urn:x:y", "urn:x:y"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char out[64];
        assert_string_equal(uri_resolve(out, "http://a/b/c/d;p?q", cases[i].ref, strlen(cases[i].ref)), cases[i].out);
    }
    char out[64];
    assert_string_equal(uri_resolve(out, "", "a.json", 6), "a.json");
    assert_string_equal(uri_resolve(out, "http://a", "b", 1), "http://a/b");
    assert_int_equal(uri_unescape(out, "a%2Fb%zz%4", 10), 8);
    assert_string_equal(out, "a/b%zz%4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(references_are_resolved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

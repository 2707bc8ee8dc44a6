/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/output/literal.h"
#include <cmocka.h>
#include <string.h>

/* The result of reading @text: the JSON, followed by "…" if the literal needs more, "!" if it is bad, or the text
 * behind it in "[]". A copy continues after each character. */
static const char *read(const char *quote, bool call, const char *text)
{
    static struct buf out;
    struct literal l, copy;
    int r = LITERAL_MORE;
    buf_clear(&out);
    literal_start(&l, quote, call);
    for (; *text && r == LITERAL_MORE; text++) {
        copy = l;
        r = literal_feed(&copy, *text, &out);
        l = copy;
    }
    if (r == LITERAL_MORE) {
        r = literal_end(&l, &out);
        assert_int_equal(buf_puts(&out, r == LITERAL_DONE ? "" : "…"), 0);
    } else if (r == LITERAL_BAD) {
        assert_int_equal(buf_puts(&out, "!"), 0);
    } else {
        assert_int_equal(buf_printf(&out, "[%s]", r == LITERAL_BEHIND ? text - 1 : text), 0);
    }
    return out.data;
}

static void test_json(void **state)
{
    assert_string_equal(read("\"", false, "{\"a\": 1, \"b\" : [true,false, null]}x"),
                        "{\"a\":1,\"b\":[true,false,null]}[x]");
    assert_string_equal(read("", false, "[]"), "[][]");
    assert_string_equal(read("", false, " {} "), "{}[ ]");
    assert_string_equal(read("", false, "-1.5e+3,"), "-1.5e+3[,]");
    assert_string_equal(read("", false, "12"), "12");
    assert_string_equal(read("", false, "\"a\\n\\u00e9\\/\\\"\""), "\"a\\n\\u00e9\\/\\\"\"");
    assert_string_equal(read("", false, "\"é€\""), "\"é€\"");
    assert_string_equal(read("", false, "{\"a\":{\"b\":[[1],2]}}"), "{\"a\":{\"b\":[[1],2]}}[]");
}

static void test_relatives_of_json(void **state)
{
    assert_string_equal(read("", false, "{'a': True, 'b': None, c: 'it\\'s \"x\"',}"),
                        "{\"a\":true,\"b\":null,\"c\":\"it's \\\"x\\\"\"}[]");
    assert_string_equal(read("", false, "\"line\n\ttab\\x41\\q\""), "\"line\\n\\u0009tab\\u0041\\\\q\"");
    assert_string_equal(read("<|\"|>", false, "{a:<|\"|>x \"<|\\n<<|\"|>,b:[<|\"|><|\"|>]}"),
                        "{\"a\":\"x \\\"<|\\\\n<\",\"b\":[\"\"]}[]");
    assert_string_equal(read("", true, "city='Oslo', n=3, l=[1, {'x': 2}]) more"),
                        "{\"city\":\"Oslo\",\"n\":3,\"l\":[1,{\"x\":2}]}[ more]");
    assert_string_equal(read("", true, ")"), "{}[]");
}

static void test_surrogates(void **state)
{
    assert_string_equal(read("", false, "\"\\ud83d\\ude00\""), "\"\\ud83d\\ude00\"");
    assert_string_equal(read("", false, "\"\\uD83D\\uDE00\\uABEF\\xBc\""), "\"\\ud83d\\ude00\\uabef\\u00bc\"");
    assert_string_equal(read("", false, "\"\\ud83dx\\ude00\\ud83d\\n\\ud83d\""),
                        "\"\\ufffdx\\ufffd\\ufffd\\n\\ufffd\"");
    assert_string_equal(read("", false, "\"\\ud83d\\ud83d\\ude00\""), "\"\\ufffd\\ud83d\\ude00\"");
}

static void test_what_is_not_allowed(void **state)
{
    static const char *const bad[] = {"{1 2}",
                                      "[1}",
                                      "{\"a\" 1}",
                                      "[,]",
                                      "01,",
                                      "1.,",
                                      "+1,",
                                      "-,",
                                      "nil,",
                                      "(1)",
                                      "{]",
                                      "[1;2]",
                                      "\"\\u12g4\"",
                                      "\"\\u12\x11\x12",
                                      "\"\\x\x10\x16",
                                      "\"\\u!a00",
                                      "{\"a\":}",
                                      "yes ",
                                      ")",
                                      "[1 2]",
                                      "{a=1}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        const char *got = read("", false, bad[i]);
        if (got[strlen(got) - 1] != '!') fail_msg("%s gives %s", bad[i], got);
    }
    assert_string_equal(read("", true, "a:1)"), "{\"a\"!");
    assert_string_equal(read("<q>", false, "<w>"), "!");
}

static void test_unfinished(void **state)
{
    static const char *const part[] = {"",    "{",    "{\"a",    "{\"a\":", "[1", "[1,",
                                       "\"x", "\"\\", "\"\\u12", "-",       "tr", "1e"};
    for (size_t i = 0; i < sizeof(part) / sizeof(*part); i++)
        if (!strstr(read("", false, part[i]), "…")) fail_msg("%s gives %s", part[i], read("", false, part[i]));
}

static void test_limits(void **state)
{
    char deep[LITERAL_DEPTH + 2] = "", word[LITERAL_WORD + 1] = "";
    memset(deep, '[', LITERAL_DEPTH);
    assert_non_null(strstr(read("", false, deep), "…"));
    deep[LITERAL_DEPTH] = '[';
    assert_null(strstr(read("", false, deep), "…"));
    memset(word, '1', LITERAL_WORD - 1);
    assert_string_equal(read("", false, word), word);
    word[LITERAL_WORD - 1] = '1';
    assert_string_equal(read("", false, word), "!");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),       cmocka_unit_test(test_relatives_of_json),
        cmocka_unit_test(test_surrogates), cmocka_unit_test(test_what_is_not_allowed),
        cmocka_unit_test(test_unfinished), cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

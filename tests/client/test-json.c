/* SPDX-License-Identifier: MIT */
#include "client/json.h"
#include "libcommon/error.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

static void escapes(const char *s, size_t n, const char *want)
{
    struct buf out = BUF_INIT;

    assert_int_equal(json_put_string(&out, s, n), 0);
    assert_string_equal(out.data, want);
    buf_fini(&out);
}

static void test_strings_are_escaped(void **state)
{
    escapes("", 0, "\"\"");
    escapes("plain", 5, "\"plain\"");
    escapes("\"\\/", 3, "\"\\\"\\\\/\"");
    escapes("a\nb\tc\r\b\f", 8, "\"a\\nb\\tc\\r\\b\\f\"");
    escapes("\0\x01\x1f\x7f", 4, "\"\\u0000\\u0001\\u001f\\u007f\"");
    /* What a terminal would obey of what is not ASCII. */
    escapes("\xc2\x80\xc2\x9f\xc2\xa0", 6, "\"\\u0080\\u009f\xc2\xa0\"");
    escapes("h\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 10, "\"h\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

static void test_invalid_utf8_is_replaced(void **state)
{
    escapes("a\xff"
            "b",
            3,
            "\"a\xef\xbf\xbd"
            "b\"");
    escapes("\xe2\x82", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"");
    escapes("\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    /* Valid but cut off by the length. */
    escapes("\xf0\x9f\x98\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

static int first_string(void *ctx, const struct json_item *item)
{
    return item->kind == JSON_STRING ? buf_append(ctx, item->text, item->len) : 0;
}

/* For all pairs of adjacent characters, reading returns the written string. */
static void test_strings_come_back(void **state)
{
    static const char *const pieces[] = {"\"", "\\", "a", "\n", "\x1f", "h\xc3\xa9", "\xe2\x82\xac", "\xc2\x9b"};
    struct buf in = BUF_INIT, out = BUF_INIT, back = BUF_INIT;
    uint32_t seed = 1;

    for (int i = 0; i < 5000; i++) {
        buf_clear(&in), buf_clear(&out), buf_clear(&back);
        for (int k = 0; k <= i % 7; k++) {
            seed = seed * 1664525u + 1013904223u;
            assert_int_equal(buf_puts(&in, pieces[seed >> 29]), 0);
        }
        assert_int_equal(json_put_string(&out, in.data, in.len), 0);
        assert_int_equal(json_walk(out.data, out.len, first_string, &back), 0);
        assert_int_equal(back.len, in.len);
        assert_memory_equal(back.data, in.data, in.len);
    }
    buf_fini(&in);
    buf_fini(&out);
    buf_fini(&back);
}

/* Every value read back is the same float: all exponents, random mantissas. */
static void test_floats_come_back(void **state)
{
    struct buf out = BUF_INIT;
    uint32_t seed = 1, i;

    for (i = 0; i < 20000; i++) {
        uint32_t bits, again;
        float v, w;

        seed = seed * 1664525u + 1013904223u;
        bits = (i % 255) << 23 | (seed >> 9) | (i & 1) << 31;
        memcpy(&v, &bits, 4);
        buf_clear(&out);
        assert_int_equal(json_put_float(&out, v), 0);
        w = strtof(out.data, NULL);
        memcpy(&again, &w, 4);
        assert_int_equal(again, bits);
    }
    buf_clear(&out);
    assert_int_equal(json_put_float(&out, -INFINITY), 0);
    assert_string_equal(out.data, "null");
    buf_fini(&out);
}

/* The walk as text: depth, key, kind, value. */
static int note(void *ctx, const struct json_item *item)
{
    return buf_printf(ctx, "%u%s%s%c%s;", item->depth, item->key ? item->key : "", item->key ? "=" : "",
                      "#$<>"[item->kind], item -> text);
}

static void walks(const char *json, const char *want)
{
    struct buf out = BUF_INIT;
    int r = json_walk(json, strlen(json), note, &out);

    if (r < 0) fail_msg("%s: %s", json, error_text(r));
    assert_string_equal(out.data, want);
    buf_fini(&out);
}

static void test_walk(void **state)
{
    walks("3", "0#3;");
    walks(" \"x\" ", "0$x;");
    walks("{}", "0<{;0>{;");
    walks("{\"a\":1,\"b\" : [true, null , -2.5e3 , {}],\"c\":{\"d\":\"e\"}}",
          "0<{;1a=#1;1b=<[;2#true;2#null;2#-2.5e3;2<{;2>{;1>[;1c=<{;2d=$e;1>{;0>{;");
    walks("[\"\\n\\u0041\\u00e9\\ud83d\\ude00\\/\\\"\"]", "0<[;1$\nA\xc3\xa9\xf0\x9f\x98\x80/\";0>[;");
    walks("{\"\":\"\"}", "0<{;1=$;0>{;");
}

static void test_walk_refuses(void **state)
{
    static const char *const bad[] = {
        "",      " ",    "{",        "[1",        "[1 2]",       "{\"a\"}",     "{\"a\":}",
        "{a:1}", "\"x",  "\"\\x\"",  "\"\\u12\"", "\"\\ud800\"", "\"\\udc00\"", "\"\\ud800\\u0041\"",
        "1 1",   "[1]]", "\"a\nb\"", "[,]",       "\"\\"};
    struct buf out = BUF_INIT;
    size_t i;

    for (i = 0; i < sizeof bad / sizeof *bad; i++)
        if (json_walk(bad[i], strlen(bad[i]), note, &out) != -EBADMSG) fail_msg("taken: %s", bad[i]);
    buf_fini(&out);
}

static void test_walk_bounds_depth(void **state)
{
    char deep[2 * JSON_DEPTH_MAX + 3];
    struct buf out = BUF_INIT;
    unsigned n = JSON_DEPTH_MAX;

    memset(deep, '[', n);
    memset(deep + n, ']', n);
    assert_int_equal(json_walk(deep, 2 * n, note, &out), 0);
    n++;
    memset(deep, '[', n);
    memset(deep + n, ']', n);
    assert_int_equal(json_walk(deep, 2 * n, note, &out), -EBADMSG);
    buf_fini(&out);
}

static int lengths(void *ctx, const struct json_item *item)
{
    *(size_t *)ctx += item->len;
    return 0;
}

static void test_a_string_may_hold_a_nul(void **state)
{
    size_t total = 0;

    /* two brackets, "true", three characters */
    assert_int_equal(json_walk("[true,\"a\\u0000b\"]", 17, lengths, &total), 0);
    assert_int_equal(total, 9);
}

static void one_line(const char *s, const char *want)
{
    struct buf out = BUF_INIT;

    assert_int_equal(json_one_line(&out, s, strlen(s)), want ? 0 : -EBADMSG);
    if (want) assert_string_equal(out.data, want);
    buf_fini(&out);
}

/* json-copy.c */
static void test_copies_are_one_line(void **state)
{
    static const char *const numbers[] = {"0", "-0", "10", "-2.5e3", "1E+2", "0.0", "12e-1"};
    static const char *const bad[] = {"01", "+1", "1.", ".5", "1e", "-", "nul", "True", "0x1", "1-2", "[1,]", "e"};

    one_line(" {\n\"a\" : [ 1,2 , {\"b\":{}} ],\t\"\\u001b\":\"\\n\x7f\"}\n",
             "{\"a\": [1, 2, {\"b\": {}}], \"\\u001b\": \"\\n\\u007f\"}");
    one_line("[]", "[]");
    one_line("[[],{},[true,false,null]]", "[[], {}, [true, false, null]]");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) one_line(numbers[i], numbers[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) one_line(bad[i], NULL);
}

/* A truncated text is never read past its end. */
static void test_walk_of_every_prefix(void **state)
{
    static const char json[] = "{\"state\":\"re\\u0061dy\",\"a\":[1,{\"b\":null}]}";
    struct buf out = BUF_INIT;
    size_t n;

    for (n = 0; n < sizeof json - 1; n++) {
        char *copy = malloc(n ? n : 1); /* exactly as long, so that valgrind and ASan see a step too far */

        assert_non_null(copy);
        memcpy(copy, json, n);
        assert_int_equal(json_walk(copy, n, note, &out), -EBADMSG);
        free(copy);
    }
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings_are_escaped),
        cmocka_unit_test(test_invalid_utf8_is_replaced),
        cmocka_unit_test(test_strings_come_back),
        cmocka_unit_test(test_floats_come_back),
        cmocka_unit_test(test_walk),
        cmocka_unit_test(test_walk_refuses),
        cmocka_unit_test(test_walk_bounds_depth),
        cmocka_unit_test(test_walk_of_every_prefix),
        cmocka_unit_test(test_a_string_may_hold_a_nul),
        cmocka_unit_test(test_copies_are_one_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "daemon/output/stop.h"
#include "libcommon/utf8.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static uint64_t rnd_state = 1;

static uint32_t rnd(uint32_t n)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rnd_state >> 33) % n;
}

static struct proto_text text_of(const char *s)
{
    return (struct proto_text){.data = (char *)s, .len = strlen(s)};
}

/* Feed the whole text. 1: a stop string was found. */
static int run(struct proto_text *stops, size_t n, const char *text, struct buf *out)
{
    struct stop s;
    assert_int_equal(stop_init(&s, stops, n), 0);
    buf_clear(out);
    int r = stop_feed(&s, text, strlen(text), out);
    if (r == 0) assert_int_equal(stop_flush(&s, out), 0);
    stop_fini(&s);
    return r;
}

static void test_no_stops(void **state)
{
    struct buf out = BUF_INIT;
    assert_int_equal(run(NULL, 0, "hello", &out), 0);
    assert_string_equal(out.data, "hello");
    buf_fini(&out);
}

static void test_stop_is_not_shown(void **state)
{
    struct proto_text stops[] = {text_of("\n\n"), text_of("END")};
    struct buf out = BUF_INIT;
    assert_int_equal(run(stops, 2, "one\ntwo\n\nthree", &out), 1);
    assert_string_equal(out.data, "one\ntwo");
    assert_int_equal(run(stops, 2, "END", &out), 1);
    assert_int_equal(out.len, 0);
    assert_int_equal(run(stops, 2, "no EN", &out), 0);
    assert_string_equal(out.data, "no EN");
    buf_fini(&out);
}

static void test_half_is_held_back(void **state)
{
    struct proto_text stops[] = {text_of("STOP")};
    struct stop s;
    struct buf out = BUF_INIT;
    assert_int_equal(stop_init(&s, stops, 1), 0);
    assert_int_equal(stop_feed(&s, "a ST", 4, &out), 0);
    assert_string_equal(out.data, "a ");
    assert_int_equal(stop_feed(&s, "STO", 3, &out), 0);
    assert_string_equal(out.data, "a ST");
    assert_int_equal(stop_feed(&s, "P", 1, &out), 1);
    assert_string_equal(out.data, "a ST");
    stop_fini(&s);
    buf_fini(&out);
}

/* Of two that end together the longer; one that ends first wins though another began before. */
static void test_overlaps(void **state)
{
    struct proto_text a[] = {text_of("c"), text_of("abc")}, b[] = {text_of("abcd"), text_of("bc")};
    struct buf out = BUF_INIT;
    assert_int_equal(run(a, 2, "xabcy", &out), 1);
    assert_string_equal(out.data, "x");
    assert_int_equal(run(b, 2, "xabcd", &out), 1);
    assert_string_equal(out.data, "xa");
    buf_fini(&out);
}

/* Any cut gives the same text; a stop never shows; nothing shown is taken back; whole characters. */
static void test_random_splits(void **state)
{
    static const char *const alphabet[] = {"a", "b", "é", "€", "ab"};
    for (int round = 0; round < 3000; round++) {
        char text[256] = "", s1[16] = "", s2[16] = "";
        for (uint32_t i = rnd(30); i-- > 0;) strcat(text, alphabet[rnd(5)]);
        for (uint32_t i = 1 + rnd(3); i-- > 0;) strcat(s1, alphabet[rnd(4)]);
        for (uint32_t i = 1 + rnd(3); i-- > 0;) strcat(s2, alphabet[rnd(4)]);
        struct proto_text stops[] = {text_of(s1), text_of(s2)};
        struct buf whole = BUF_INIT, out = BUF_INIT;
        int want = run(stops, 2, text, &whole), r = 0;
        struct stop s, other;
        assert_int_equal(stop_init(&s, stops, 2), 0);
        for (size_t at = 0, n = strlen(text); at < n && r == 0;) {
            size_t cut = utf8_whole(text + at, 1 + rnd((uint32_t)(n - at)));
            if (cut == 0) continue;
            if (rnd(4) == 0) { /* a clone continues in its place */
                assert_int_equal(stop_clone(&other, &s), 0);
                stop_fini(&s);
                s = other;
            }
            r = stop_feed(&s, text + at, cut, &out);
            at += cut;
            assert_true(out.len <= whole.len && (out.len == 0 || memcmp(out.data, whole.data, out.len) == 0));
            assert_int_equal(utf8_check(out.data ? out.data : "", out.len), out.len);
        }
        if (r == 0) assert_int_equal(stop_flush(&s, &out), 0);
        assert_int_equal(r, want);
        assert_int_equal(out.len, whole.len);
        if (out.len) {
            assert_memory_equal(out.data, whole.data, out.len);
            if (want == 1) assert_null(strstr(out.data, s1));
            if (want == 1) assert_null(strstr(out.data, s2));
        }
        assert_int_equal(want, strstr(text, s1) || strstr(text, s2));
        stop_fini(&s);
        buf_fini(&out);
        buf_fini(&whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_stops),          cmocka_unit_test(test_stop_is_not_shown),
        cmocka_unit_test(test_half_is_held_back), cmocka_unit_test(test_overlaps),
        cmocka_unit_test(test_random_splits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

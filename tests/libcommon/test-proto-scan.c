/* SPDX-License-Identifier: MIT */
#include "libcommon/error.h"
#include "libcommon/proto.h"
#include "tests/libcommon/check.h"
#include "tests/libcommon/pack.h"
#include <stdlib.h>
#include <string.h>

/* From memory of exactly that size, so that ASan sees a byte read too many. */
static int scan(const void *bytes, size_t n)
{
    char *copy = calloc(1, n ? n : 1);
    int r;

    memcpy(copy, bytes, n);
    r = proto_scan(copy, n);
    free(copy);
    return r;
}

#define GOOD(bytes) assert_int_equal(scan(bytes, sizeof bytes - 1), 0)
#define BAD(bytes, why)                                                                                                \
    do {                                                                                                               \
        assert_int_equal(scan(bytes, sizeof bytes - 1), -EBADMSG);                                                     \
        if (!strstr(error_text(-EBADMSG), why)) fail_msg("'%s' does not say '%s'", error_text(-EBADMSG), why);         \
    } while (0)

static void every_kind_of_object(void **state)
{
    GOOD("\x00");
    GOOD("\x7f");
    GOOD("\xe0");
    GOOD("\xff");
    GOOD("\xc0");
    GOOD("\xc2");
    GOOD("\xc3");
    GOOD("\x80");
    GOOD("\x90");
    GOOD("\xa0");
    GOOD("\xa3"
         "abc");
    GOOD("\xd9\x03"
         "abc");
    GOOD("\xda\x00\x03"
         "abc");
    GOOD("\xdb\x00\x00\x00\x03"
         "abc");
    GOOD("\xc4\x03"
         "abc");
    GOOD("\xc5\x00\x03"
         "abc");
    GOOD("\xc6\x00\x00\x00\x03"
         "abc");
    GOOD("\xca\x00\x00\x00\x00");
    GOOD("\xcb\x00\x00\x00\x00\x00\x00\x00\x00");
    GOOD("\xcc\x00");
    GOOD("\xcd\x00\x00");
    GOOD("\xce\x00\x00\x00\x00");
    GOOD("\xcf\x00\x00\x00\x00\x00\x00\x00\x00");
    GOOD("\xd0\x00");
    GOOD("\xd1\x00\x00");
    GOOD("\xd2\x00\x00\x00\x00");
    GOOD("\xd3\x00\x00\x00\x00\x00\x00\x00\x00");
    GOOD("\x92\x01\x02");
    GOOD("\xdc\x00\x02\x01\x02");
    GOOD("\xdd\x00\x00\x00\x02\x01\x02");
    GOOD("\x81\xa1"
         "a\x01");
    GOOD("\xde\x00\x01\xa1"
         "a\x01");
    GOOD("\xdf\x00\x00\x00\x01\xa1"
         "a\x01");
    GOOD("\x82\xa1"
         "a\x92\x80\x90\xa1"
         "b\x81\xc0\xc0");
}

static void counts_that_lie(void **state)
{
    BAD("\xdf\xff\xff\xff\xff\x00", "count beyond the end");
    BAD("\xdd\xff\xff\xff\xff\x00", "count beyond the end");
    BAD("\xde\xff\xff\x00", "count beyond the end");
    BAD("\xdc\xff\xff\x00", "count beyond the end");
    BAD("\x8f\x00\x00", "count beyond the end");
    BAD("\x9f\x00\x00", "count beyond the end");
    BAD("\x81\x00", "count beyond the end"); /* a key needs a value */
    BAD("\x93\x01\x92\x01", "count beyond the end");
    BAD("\x92\x92\x01\x01", "cut off"); /* enough bytes for each, not for both */
}

static void lengths_that_lie(void **state)
{
    BAD("\xa5"
        "abcd",
        "length beyond the end");
    BAD("\xd9\xff"
        "abcd",
        "length beyond the end");
    BAD("\xda\xff\xff"
        "abcd",
        "length beyond the end");
    BAD("\xdb\xff\xff\xff\xff"
        "abcd",
        "length beyond the end");
    BAD("\xc6\xff\xff\xff\xff"
        "abcd",
        "length beyond the end");
    BAD("\xcf\x00\x00\x00", "length beyond the end");
}

/* The number itself is not whole: what has come must not count as a length of 0. */
static void numbers_that_are_cut_off(void **state)
{
    static const unsigned char heads[] = {0xc4, 0xc5, 0xc6, 0xd9, 0xda, 0xdb, 0xdc, 0xdd, 0xde, 0xdf};
    static const size_t sizes[] = {1, 2, 4, 1, 2, 4, 2, 4, 2, 4};
    for (size_t i = 0; i < sizeof(heads); i++)
        for (size_t n = 0; n < sizes[i]; n++) {
            const unsigned char bytes[5] = {heads[i]};
            assert_int_equal(scan(bytes, 1 + n), -EBADMSG);
            assert_non_null(strstr(error_text(-EBADMSG), "cut off at byte 1"));
        }
}

static void not_exactly_one_object(void **state)
{
    BAD("", "cut off");
    BAD("\x01\x02", "bytes after the end at byte 1");
    BAD("\x80\x80", "bytes after the end");
    BAD("\x91\x80\xc0", "bytes after the end");
}

static void what_is_no_object_here(void **state)
{
    BAD("\xc1", "an invalid type byte");
    BAD("\xd4\x01\x00", "extension");
    BAD("\xd5\x01\x00\x00", "extension");
    BAD("\xd6\xff\x00\x00\x00\x00", "extension");
    BAD("\xc7\x00\x01", "extension");
    BAD("\xc8\x00\x00\x01", "extension");
    BAD("\xc9\x00\x00\x00\x00\x01", "extension");
    BAD("\x81\xa1"
        "a\xd4\x01\x00",
        "extension type at byte 3");
}

/* @depth arrays (or maps), one in the other. */
static int scan_nested(const char *open, size_t depth, const char *inner)
{
    struct buf b = BUF_INIT;
    int r;

    for (size_t i = 0; i < depth; i++) assert_int_equal(buf_puts(&b, open), 0);
    assert_int_equal(buf_puts(&b, inner), 0);
    r = scan(b.data, b.len);
    buf_fini(&b);
    return r;
}

static void depth_is_limited(void **state)
{
    assert_int_equal(scan_nested("\x91", PROTO_DEPTH_MAX, "\x01"), 0);
    assert_int_equal(scan_nested("\x91", PROTO_DEPTH_MAX - 1, "\x90"), 0);
    assert_int_equal(scan_nested("\x91", PROTO_DEPTH_MAX + 1, "\x01"), -EBADMSG);
    assert_non_null(strstr(error_text(-EBADMSG), "nested too deep at byte 17"));
    assert_int_equal(scan_nested("\x91", PROTO_DEPTH_MAX, "\x90"), -EBADMSG);
    assert_int_equal(scan_nested("\x81\x01", PROTO_DEPTH_MAX, "\x01"), 0);
    assert_int_equal(scan_nested("\x81\x01", PROTO_DEPTH_MAX + 1, "\x01"), -EBADMSG);
    assert_int_equal(scan_nested("\x91", 1000000, "\x01"), -EBADMSG); /* no stack is used up */
    assert_int_equal(scan_nested("\x81\x01", 1000000, "\x01"), -EBADMSG);
}

/* An array of @n small integers. */
static int scan_list(uint32_t n)
{
    char *s = calloc(1, 5 + (size_t)n);
    int r;

    s[0] = (char)0xdd;
    for (int i = 0; i < 4; i++) s[1 + i] = (char)(n >> (24 - 8 * i));
    r = proto_scan(s, 5 + (size_t)n);
    free(s);
    return r;
}

static void elements_are_limited(void **state)
{
    struct buf b = BUF_INIT;

    assert_int_equal(scan_list(PROTO_ELEMS_MAX - 1), 0);
    assert_int_equal(scan_list(PROTO_ELEMS_MAX), -EBADMSG);
    assert_non_null(strstr(error_text(-EBADMSG), "too many elements"));
    /* in all, not in one list: 400 lists of 250 */
    assert_int_equal(buf_append(&b, "\xdc\x01\x90", 3), 0);
    for (int i = 0; i < 400; i++) {
        static const char zeros[250];

        assert_int_equal(buf_append(&b, "\xdc\x00\xfa", 3), 0);
        assert_int_equal(buf_append(&b, zeros, sizeof zeros), 0);
    }
    assert_int_equal(proto_scan(b.data, b.len), -EBADMSG);
    assert_non_null(strstr(error_text(-EBADMSG), "too many elements"));
    buf_fini(&b);
}

static void every_truncation_is_refused(void **state)
{
    struct buf b = BUF_INIT;

    pack(&b, "{'type': 'generate', 'id': 5000000000, 'messages': [{'role': 'user', 'content': [{'type': 'text',"
             "'text': 'a rather longer text than fits into a fixstr'}]}], 'seed': 70000, 'temperature': 0.5,"
             "'raw': false, 'x': b'bytes', 'y': null, 'z': -300}");
    assert_int_equal(scan(b.data, b.len), 0);
    for (size_t n = 0; n < b.len; n++) assert_int_equal(scan(b.data, n), -EBADMSG);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_object),
        cmocka_unit_test(counts_that_lie),
        cmocka_unit_test(lengths_that_lie),
        cmocka_unit_test(numbers_that_are_cut_off),
        cmocka_unit_test(not_exactly_one_object),
        cmocka_unit_test(what_is_no_object_here),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(elements_are_limited),
        cmocka_unit_test(every_truncation_is_refused),
    };

    return cmocka_run_group_tests_name("proto-scan", tests, NULL, NULL);
}

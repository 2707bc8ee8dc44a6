/* SPDX-License-Identifier: MIT */
#include "libcommon/buf.h"
#include "tests/libcommon/check.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void grows_and_keeps_its_bytes(void **state)
{
    struct buf b = BUF_INIT;

    for (int i = 0; i < 1000; i++) {
        assert_int_equal(buf_printf(&b, "%03d,", i), 0);
        assert_int_equal(b.data[b.len], 0);
        assert_true(b.len < b.cap);
    }
    assert_int_equal(b.len, 4000);
    assert_memory_equal(b.data, "000,001,", 8);
    assert_string_equal(b.data + 3996, "999,");
    buf_fini(&b);
    assert_null(b.data);
}

static void appends_bytes_with_nuls(void **state)
{
    struct buf b = BUF_INIT;

    assert_int_equal(buf_append(&b, "a\0b", 3), 0);
    assert_int_equal(buf_puts(&b, "c"), 0);
    assert_int_equal(b.len, 4);
    assert_memory_equal(b.data, "a\0bc", 5);
    buf_fini(&b);
}

static void appending_nothing_makes_an_empty_string(void **state)
{
    struct buf b = BUF_INIT;

    assert_int_equal(buf_append(&b, NULL, 0), 0);
    assert_int_equal(b.len, 0);
    assert_string_equal(b.data, "");
    buf_fini(&b);
}

static void consumes_from_the_front(void **state)
{
    struct buf b = BUF_INIT;

    assert_int_equal(buf_puts(&b, "hello world"), 0);
    buf_consume(&b, 0);
    buf_consume(&b, 6);
    assert_string_equal(b.data, "world");
    buf_consume(&b, 5);
    assert_int_equal(b.len, 0);
    assert_string_equal(b.data, "");
    buf_fini(&b);
}

static void consuming_nothing_of_nothing_is_allowed(void **state)
{
    struct buf b = BUF_INIT;

    buf_consume(&b, 0);
    buf_clear(&b);
    assert_null(b.data);
}

static void clear_keeps_the_memory(void **state)
{
    struct buf b = BUF_INIT;
    char *data;

    assert_int_equal(buf_puts(&b, "some text"), 0);
    data = b.data;
    buf_clear(&b);
    assert_int_equal(b.len, 0);
    assert_ptr_equal(b.data, data);
    assert_string_equal(b.data, "");
    buf_fini(&b);
}

static void steal_hands_over_and_empties(void **state)
{
    struct buf b = BUF_INIT;
    size_t len = 7;
    char *s;

    assert_null(buf_steal(&b, &len));
    assert_int_equal(len, 0);
    assert_int_equal(buf_puts(&b, "mine"), 0);
    s = buf_steal(&b, NULL);
    assert_string_equal(s, "mine");
    assert_null(b.data);
    assert_int_equal(b.len + b.cap, 0);
    free(s);
}

static void refuses_sizes_that_overflow(void **state)
{
    struct buf b = BUF_INIT;

    assert_int_equal(buf_puts(&b, "x"), 0);
    assert_int_equal(buf_reserve(&b, SIZE_MAX), -ENOMEM);
    assert_int_equal(buf_reserve(&b, SIZE_MAX - 1), -ENOMEM);
    assert_string_equal(b.data, "x");
    assert_int_equal(b.len, 1);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_and_keeps_its_bytes),
        cmocka_unit_test(appends_bytes_with_nuls),
        cmocka_unit_test(appending_nothing_makes_an_empty_string),
        cmocka_unit_test(consumes_from_the_front),
        cmocka_unit_test(consuming_nothing_of_nothing_is_allowed),
        cmocka_unit_test(clear_keeps_the_memory),
        cmocka_unit_test(steal_hands_over_and_empties),
        cmocka_unit_test(refuses_sizes_that_overflow),
    };

    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}

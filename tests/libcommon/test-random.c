/* SPDX-License-Identifier: MIT */
#include "libcommon/random.h"
#include "tests/libcommon/check.h"
#include "tests/support/calls.h"
#include <errno.h>
#include <string.h>

static void test_fills_all(void **state)
{
    static const unsigned char zero[32];
    unsigned char a[32] = {0}, b[32] = {0};
    assert_int_equal(random_fill(a, sizeof(a)), 0);
    assert_int_equal(random_fill(b, sizeof(b)), 0);
    assert_memory_not_equal(a, zero, sizeof(a));
    assert_memory_not_equal(a, b, sizeof(a));
}

static void test_fails_with_the_error_of_the_call(void **state)
{
    unsigned char a[32];
    calls_fail(CALL_RANDOM, 0, ENOSYS);
    assert_int_equal(random_fill(a, sizeof(a)), -ENOSYS);
    assert_true(calls_end());
}

static void test_fails_when_there_are_fewer_bytes(void **state)
{
    unsigned char a[32];
    calls_stale(0);
    calls_short(31);
    assert_int_equal(random_fill(a, sizeof(a)), -EIO);
    calls_end();
}

static void test_tries_again_after_a_signal(void **state)
{
    unsigned char a[32];
    calls_fail(CALL_RANDOM, 0, EINTR);
    assert_int_equal(random_fill(a, sizeof(a)), 0);
    assert_int_equal(calls_count(CALL_RANDOM), 2);
    assert_true(calls_end());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fills_all),
        cmocka_unit_test(test_fails_with_the_error_of_the_call),
        cmocka_unit_test(test_fails_when_there_are_fewer_bytes),
        cmocka_unit_test(test_tries_again_after_a_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

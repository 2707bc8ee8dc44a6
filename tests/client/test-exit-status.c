/* SPDX-License-Identifier: MIT */
#include "client/exit-status.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the above */
#include <cmocka.h>

static void test_events(void **state)
{
    assert_int_equal(exit_status_of_event(EBUSY, false), 75);
    assert_int_equal(exit_status_of_event(EBUSY, true), 75);
    assert_int_equal(exit_status_of_event(ETIMEDOUT, false), 75);
    assert_int_equal(exit_status_of_event(ETIMEDOUT, true), 1);
    assert_int_equal(exit_status_of_event(ESHUTDOWN, true), 69);
    assert_int_equal(exit_status_of_event(EDOM, false), 2);
    assert_int_equal(exit_status_of_event(EDOM, true), 1);
    assert_int_equal(exit_status_of_event(EINVAL, false), 1);
    assert_int_equal(exit_status_of_event(EIO, true), 1);
}

static void test_errors(void **state)
{
    assert_int_equal(exit_status_of_error(-EINTR), 130);
    assert_int_equal(exit_status_of_error(-EPIPE), 0);
    assert_int_equal(exit_status_of_error(-ENOSPC), 1);
    assert_int_equal(exit_status_of_error(-ENOMEM), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_events), cmocka_unit_test(test_errors)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

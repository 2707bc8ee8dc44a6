/* SPDX-License-Identifier: MIT */
#include "daemon/io/account.h"
#include "libcommon/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void connections_of_one_uid_are_limited(void **state)
{
    struct accounts *all;
    struct account *a[3], *other;

    assert_int_equal(accounts_new(&all, 10, 3, 100), 0);
    for (int i = 0; i < 3; i++) assert_int_equal(account_open(all, 1000, &a[i]), 0);
    assert_int_equal(account_open(all, 1000, &other), -EBUSY);
    assert_non_null(strstr(error_text(-EBUSY), "1000"));
    assert_int_equal(account_open(all, 1001, &other), 0);
    account_close(a[0]);
    assert_int_equal(account_open(all, 1000, &a[0]), 0);
    for (int i = 0; i < 3; i++) account_close(a[i]);
    account_close(other);
    accounts_free(all);
}

static void connections_in_total_are_limited(void **state)
{
    struct accounts *all;
    struct account *a[4], *other;

    assert_int_equal(accounts_new(&all, 4, 3, 100), 0);
    for (unsigned i = 0; i < 4; i++) assert_int_equal(account_open(all, 1000 + i, &a[i]), 0);
    assert_int_equal(account_open(all, 2000, &other), -EBUSY);
    for (int i = 0; i < 4; i++) account_close(a[i]);
    assert_int_equal(account_open(all, 2000, &other), 0);
    account_close(other);
    accounts_free(all);
}

static void bytes_belong_to_the_uid(void **state)
{
    struct accounts *all;
    struct account *a, *b, *other;
    uint64_t at_a = 0, at_b = 0, at_other = 0;

    assert_int_equal(accounts_new(&all, 10, 10, 100), 0);
    assert_int_equal(account_open(all, 1000, &a), 0);
    assert_int_equal(account_open(all, 1000, &b), 0);
    assert_int_equal(account_open(all, 1001, &other), 0);
    assert_int_equal(account_charge(a, &at_a, 60), 0);
    assert_int_equal(account_charge(b, &at_b, 41), -EDQUOT);
    assert_int_equal(at_b, 0);
    assert_int_equal(account_charge(b, &at_b, 40), 0);
    assert_int_equal(account_bytes(a), 100);
    assert_int_equal(account_charge(other, &at_other, 100), 0);
    assert_int_equal(account_charge(a, &at_a, 61), -EDQUOT);
    assert_int_equal(account_charge(a, &at_a, 20), 0);
    assert_int_equal(account_charge(b, &at_b, 80), 0);
    assert_int_equal(account_charge(a, &at_a, UINT64_MAX), -EDQUOT);
    assert_int_equal(account_charge(a, &at_a, 0), 0);
    assert_int_equal(account_charge(b, &at_b, 0), 0);
    assert_int_equal(account_charge(other, &at_other, 0), 0);
    account_close(a);
    account_close(b);
    account_close(other);
    accounts_free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_of_one_uid_are_limited),
        cmocka_unit_test(connections_in_total_are_limited),
        cmocka_unit_test(bytes_belong_to_the_uid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

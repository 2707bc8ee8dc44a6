/* SPDX-License-Identifier: MIT */
#include "daemon/io/account.h"
#include "libcommon/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static int make(struct accounts **out, size_t connections, size_t per_uid, uint64_t bytes)
{
    const struct account_limits l = {connections, per_uid, 4 * bytes, bytes};

    return accounts_new(out, &l);
}

static void connections_of_one_uid_are_limited(void **state)
{
    struct accounts *all;
    struct account *a[3], *other;

    assert_int_equal(make(&all, 10, 3, 100), 0);
    for (int i = 0; i < 3; i++) assert_int_equal(account_open(all, 1000, 0, &a[i]), 0);
    assert_int_equal(account_open(all, 1000, 0, &other), -EBUSY);
    assert_non_null(strstr(error_text(-EBUSY), "1000"));
    assert_int_equal(account_open(all, 1001, 0, &other), 0);
    account_close(a[0]);
    assert_int_equal(account_open(all, 1000, 0, &a[0]), 0);
    for (int i = 0; i < 3; i++) account_close(a[i]);
    account_close(other);
    accounts_free(all);
}

static void connections_in_total_are_limited(void **state)
{
    struct accounts *all;
    struct account *a[4], *other;

    assert_int_equal(make(&all, 4, 3, 100), 0);
    for (unsigned i = 0; i < 4; i++) assert_int_equal(account_open(all, 1000 + i, 0, &a[i]), 0);
    assert_int_equal(account_open(all, 2000, 0, &other), -EBUSY);
    for (int i = 0; i < 4; i++) account_close(a[i]);
    assert_int_equal(account_open(all, 2000, 0, &other), 0);
    account_close(other);
    accounts_free(all);
}

/* Some uids that take all they can leave places for those who come later, more of them for the first. */
static void there_is_room_for_newcomers(void **state)
{
    struct accounts *all;
    struct account *a[1024], *x;
    size_t n = 0, has[10] = {0};

    assert_int_equal(make(&all, 1024, 256, 100), 0);
    for (unsigned uid = 0; uid < 10; uid++)
        while (account_open(all, 1000 + uid, 0, &x) == 0) {
            a[n++] = x;
            has[uid]++;
        }
    assert_int_equal(has[0], 256);
    assert_int_equal(has[1], 256);
    assert_int_equal(has[3], 128);
    for (unsigned uid = 1; uid < 10; uid++) assert_in_range(has[uid], 1, has[uid - 1]);
    assert_non_null(strstr(error_text(-EBUSY), "for other users"));
    while (n) account_close(a[--n]);
    accounts_free(all);
}

static void no_uid_holds_more_than_it_leaves_free(void **state)
{
    struct accounts *all;
    struct account *a[3];
    uint64_t at[3] = {0};
    const struct account_limits l = {10, 10, 900, 800};

    assert_int_equal(accounts_new(&all, &l), 0);
    for (unsigned i = 0; i < 3; i++) assert_int_equal(account_open(all, 1000 + i, 0, &a[i]), 0);
    assert_int_equal(account_charge(a[0], &at[0], 451), -EDQUOT);
    assert_int_equal(account_charge(a[0], &at[0], 450), 0);
    assert_int_equal(account_charge(a[1], &at[1], 226), -EDQUOT);
    assert_int_equal(account_charge(a[1], &at[1], 225), 0);
    assert_int_equal(account_charge(a[0], &at[0], 451), -EDQUOT);
    assert_int_equal(account_charge(a[2], &at[2], 100), 0);
    assert_int_equal(account_charge(a[0], &at[0], 0), 0);
    assert_int_equal(account_charge(a[2], &at[2], 337), 0);
    assert_int_equal(account_charge(a[2], &at[2], 338), -EDQUOT);
    for (unsigned i = 0; i < 3; i++) assert_int_equal(account_charge(a[i], &at[i], 0), 0);
    for (unsigned i = 0; i < 3; i++) account_close(a[i]);
    accounts_free(all);
}

/* A uid that reconnects too often is refused for a while, and no other uid is. */
static void new_connections_have_a_rate(void **state)
{
    struct accounts *all;
    struct account *a;
    uint64_t now = 1000000;
    int n = 0;

    assert_int_equal(make(&all, 10, 3, 100), 0);
    for (; account_open(all, 7, now, &a) == 0; n++) account_close(a);
    assert_in_range(n, ACCOUNT_BURST, ACCOUNT_BURST + 2);
    assert_int_equal(account_open(all, 7, now, &a), -EAGAIN);
    assert_int_equal(account_open(all, 8, now, &a), 0);
    account_close(a);
    now += 1000000;
    for (n = 0; account_open(all, 7, now, &a) == 0; n++) account_close(a);
    assert_in_range(n, ACCOUNT_RATE - 2, ACCOUNT_RATE + 2);
    now += 60000000;
    assert_int_equal(account_open(all, 7, now, &a), 0);
    account_close(a);
    accounts_free(all);
}

/* A gateway's user has the limits of a uid, also for new connections, which then do not count for the gateway. */
static void a_connection_moves_to_a_user(void **state)
{
    struct accounts *all;
    struct account *a[3], *x;
    struct account_info info;
    int n = 0;

    assert_int_equal(make(&all, 6, 2, 100), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(account_open(all, 7, 0, &a[i]), 0);
        assert_int_equal(account_move(&a[i], 0x80000000, "ada", 0), 0);
        assert_int_equal(account_uid(a[i]), 0x80000000);
    }
    assert_ptr_equal(a[0], a[1]);
    assert_int_equal(account_open(all, 7, 0, &a[2]), 0);
    x = a[2];
    assert_int_equal(account_move(&a[2], 0x80000000, "ada", 0), -EBUSY);
    assert_non_null(strstr(error_text(-EBUSY), "user ada has 2 connections"));
    assert_ptr_equal(a[2], x);
    assert_non_null(accounts_next(all, NULL, &info));
    assert_string_equal(info.name, "ada");
    assert_int_equal(info.gateway, 7);
    assert_int_equal(info.connections, 2);
    for (int i = 0; i < 3; i++) account_close(a[i]);
    for (int r = 0; r == 0; n++) {
        assert_int_equal(account_open(all, 7, 0, &x), 0);
        r = account_move(&x, 0x80000001, "bob", 0);
        account_close(x);
    }
    assert_in_range(n, ACCOUNT_BURST, ACCOUNT_BURST + 3);
    assert_int_equal(account_open(all, 7, 0, &x), 0);
    account_close(x);
    accounts_free(all);
}

/* Reconnecting does not reset an account, and the number of kept accounts is bounded. */
static void an_account_outlives_its_connections(void **state)
{
    struct accounts *all;
    struct account *a;
    struct account_info info;
    unsigned n = 0;

    assert_int_equal(make(&all, 10, 3, 100), 0);
    assert_int_equal(account_open(all, 7, 0, &a), 0);
    account_counts(a)->messages = 5;
    account_close(a);
    assert_int_equal(account_open(all, 7, 0, &a), 0);
    assert_int_equal(account_counts(a)->messages, 5);
    account_close(a);
    for (unsigned uid = 100; uid < 1100; uid++) {
        assert_int_equal(account_open(all, uid, 0, &a), 0);
        account_close(a);
    }
    for (const struct account *at = NULL; (at = accounts_next(all, at, &info));) n++;
    assert_in_range(n, 10, 100);
    accounts_free(all);
}

static void bytes_belong_to_the_uid(void **state)
{
    struct accounts *all;
    struct account *a, *b, *other;
    uint64_t at_a = 0, at_b = 0, at_other = 0;

    assert_int_equal(make(&all, 10, 10, 100), 0);
    assert_int_equal(account_open(all, 1000, 0, &a), 0);
    assert_int_equal(account_open(all, 1000, 0, &b), 0);
    assert_int_equal(account_open(all, 1001, 0, &other), 0);
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
        cmocka_unit_test(connections_of_one_uid_are_limited),  cmocka_unit_test(connections_in_total_are_limited),
        cmocka_unit_test(there_is_room_for_newcomers),         cmocka_unit_test(no_uid_holds_more_than_it_leaves_free),
        cmocka_unit_test(new_connections_have_a_rate),         cmocka_unit_test(a_connection_moves_to_a_user),
        cmocka_unit_test(an_account_outlives_its_connections), cmocka_unit_test(bytes_belong_to_the_uid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

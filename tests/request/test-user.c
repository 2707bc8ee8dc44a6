/* SPDX-License-Identifier: MIT */
#include "daemon/request/user.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define REMEMBERED 1024 /* users without requests that a ledger keeps */

static struct user *hold(struct users *u, uid_t uid)
{
    struct user *x = user_hold(u, uid);
    assert_non_null(x);
    return x;
}

static void begin(struct users *u, uid_t uid, unsigned n)
{
    for (unsigned i = 0; i < n; i++) user_begin(u, hold(u, uid));
}

static void end(struct users *u, uid_t uid, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct user *x = hold(u, uid);
        user_end(u, x);
        user_drop(x);
        user_drop(x); /* that of begin */
    }
}

/* Holding a user moves it to the front; it is the same user with the same sums. */
static void test_one_user_for_a_uid(void **state)
{
    struct users u = {0};
    struct user *a = hold(&u, 1000), *b = hold(&u, 1001);
    a->counts.requests = 7;
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(u.list, b);
    assert_ptr_equal(hold(&u, 1000), a);
    assert_ptr_equal(u.list, a);
    assert_ptr_equal(u.list->next, b);
    assert_null(b->next);
    assert_int_equal(u.n, 2);
    assert_int_equal(a->holds, 2);
    assert_int_equal(a->counts.requests, 7);
    user_drop(NULL);
    users_free(&u);
    assert_null(u.list);
}

/* Room for eight: one user may have all of it, but each other user still begins up to an even share. */
static void test_even_share(void **state)
{
    struct users u = {0};
    begin(&u, 1000, 7);
    assert_false(users_is_full(&u, 1000, 8));
    begin(&u, 1000, 1);
    assert_true(users_is_full(&u, 1000, 8));
    assert_false(users_is_full(&u, 1001, 8));
    begin(&u, 1001, 3);
    assert_false(users_is_full(&u, 1001, 8)); /* 3 of 4 */
    begin(&u, 1001, 1);
    assert_true(users_is_full(&u, 1001, 8));
    assert_true(users_is_full(&u, 1000, 8));
    assert_false(users_is_full(&u, 1002, 8)); /* its share is 8 / 3 */
    begin(&u, 1002, 2);
    assert_true(users_is_full(&u, 1002, 8));
    assert_true(users_is_full(&u, 1003, 3)); /* 3 users share room for 3: none is left for a fourth */
    end(&u, 1000, 7);                        /* 1 + 4 + 2 are live */
    assert_false(users_is_full(&u, 1001, 8));
    end(&u, 1000, 1);
    end(&u, 1001, 4);
    end(&u, 1002, 2);
    assert_int_equal(u.n_live, 0);
    assert_false(users_is_full(&u, 1000, 1));
    users_free(&u);
}

static void test_alone(void **state)
{
    struct users u = {0};
    assert_true(users_is_alone(&u, 1000)); /* nobody waits */
    begin(&u, 1000, 2);
    assert_true(users_is_alone(&u, 1000));
    assert_false(users_is_alone(&u, 1001));
    begin(&u, 1001, 1);
    assert_false(users_is_alone(&u, 1000));
    assert_false(users_is_alone(&u, 1001));
    end(&u, 1000, 1);
    assert_false(users_is_alone(&u, 1001)); /* 1000 has one more */
    end(&u, 1000, 1);
    assert_true(users_is_alone(&u, 1001));
    assert_false(users_is_alone(&u, 1000));
    hold(&u, 1002); /* a user without live requests does not count */
    assert_true(users_is_alone(&u, 1001));
    end(&u, 1001, 1);
    assert_true(users_is_alone(&u, 1000));
    users_free(&u);
}

static bool remembers(const struct users *u, uid_t uid)
{
    for (const struct user *x = u->list; x; x = x->next)
        if (x->uid == uid) return true;
    return false;
}

/* Of users that are too many, the least recently seen go, unless they have a request or are owed for their service. */
static void test_forgets_the_least_recently_seen(void **state)
{
    struct users u = {0};
    for (uid_t uid = 0; uid < REMEMBERED + 4; uid++) {
        struct user *x = hold(&u, uid);
        x->counts.requests = 1;
        x->counts.tokens_generated = uid;
        x->account.served = uid == 1 ? 101 : 100;
        if (uid != 2) user_drop(x); /* 2 keeps a request */
    }
    users_forget(&u, 99);
    assert_int_equal(u.n, REMEMBERED + 4);
    users_forget(&u, 100);
    assert_int_equal(u.n, REMEMBERED);
    for (uid_t uid = 0; uid < 8; uid++) assert_int_equal(remembers(&u, uid), uid == 1 || uid == 2 || uid > 5);
    assert_int_equal(u.forgotten.requests, 4);
    assert_int_equal(u.forgotten.tokens_generated, 0 + 3 + 4 + 5);
    users_forget(&u, UINT64_MAX); /* not more than necessary */
    assert_int_equal(u.n, REMEMBERED);
    users_free(&u);
}

static void test_counts_add(void **state)
{
    struct user_counts sum = {1, 2, 3, 4, 5, 6, 7, 0.5, 0.25, NULL};
    user_counts_add(&sum, &(struct user_counts){10, 20, 30, 40, 50, 60, 70, 5, 2.5, "new"});
    user_counts_add(&sum, &(struct user_counts){100, 200, 300, 400, 500, 600, 700, 50, 25, "later"});
    assert_int_equal(sum.requests, 111);
    assert_int_equal(sum.tokens_prompt, 222);
    assert_int_equal(sum.tokens_cached, 333);
    assert_int_equal(sum.tokens_generated, 444);
    assert_int_equal(sum.passes, 555);
    assert_int_equal(sum.tokens_drafted, 666);
    assert_int_equal(sum.tokens_accepted, 777);
    assert_true(sum.joules == 55.5 && sum.joules_saved == 27.75);
    assert_string_equal(sum.last_miss, "new"); /* of the most recent user, who is added first */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_user_for_a_uid),
        cmocka_unit_test(test_even_share),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_forgets_the_least_recently_seen),
        cmocka_unit_test(test_counts_add),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

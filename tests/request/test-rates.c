/* SPDX-License-Identifier: MIT */
/* Sums over the last seconds, on a clock of our own. */
#include "daemon/request/rates.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define S 1000000ull

static void assert_near(double a, double b)
{
    if (fabs(a - b) > 1e-9) fail_msg("%.12f is not %.12f", a, b);
}

static void test_nothing_was_done(void **state)
{
    struct rates r = {0};
    struct rates_sum s;
    rates_sum(&r, 5 * S, &s);
    assert_int_equal(s.steps, 0);
    assert_true(s.step_ms == 0 && s.batch == 0 && s.read == 0 && s.written == 0);
}

static void test_means_and_rates(void **state)
{
    struct rates r = {0};
    struct rates_sum s;
    rates_add(&r, 100 * S, &(struct rates_step){.usec = 4000, .sequences = 1, .read = 100, .written = 1});
    rates_add(&r, 100 * S + S / 2,
              &(struct rates_step){.usec = 8000, .sequences = 4, .written = 4, .drafted = 3, .accepted = 2});
    rates_sum(&r, 102 * S, &s);
    assert_int_equal(s.steps, 2);
    assert_near(s.seconds, 2);
    assert_near(s.step_ms, 6);
    assert_near(s.batch, 2.5);
    assert_near(s.read, 50);
    assert_near(s.written, 2.5);
    assert_int_equal(s.drafted, 3);
    assert_int_equal(s.accepted, 2);
}

static void test_less_than_a_second_is_one(void **state)
{
    struct rates r = {0};
    struct rates_sum s;
    rates_add(&r, 100 * S, &(struct rates_step){.usec = 1, .sequences = 1, .read = 7});
    rates_sum(&r, 100 * S + 10, &s);
    assert_near(s.seconds, 1);
    assert_near(s.read, 7);
}

/* A step a second for a long time: what is older than the ring has left it, and so has everything after a pause. */
static void test_old_seconds_leave(void **state)
{
    struct rates r = {0};
    struct rates_sum s;
    for (uint64_t t = 1; t <= 100; t++)
        rates_add(&r, t * S, &(struct rates_step){.usec = 1000, .sequences = 2, .read = t > 50 ? 10 : 1000});
    rates_sum(&r, 101 * S - 1, &s);
    assert_int_equal(s.steps, RATES_SECONDS);
    assert_true(s.read > 9.99 && s.read < 10.01);
    rates_sum(&r, (100 + RATES_SECONDS) * S, &s);
    assert_int_equal(s.steps, 0);
    assert_near(s.seconds, RATES_SECONDS - 1);
    rates_add(&r, 1000 * S, &(struct rates_step){.usec = 3000, .sequences = 1});
    rates_sum(&r, 1000 * S, &s);
    assert_int_equal(s.steps, 1);
    assert_near(s.step_ms, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_was_done),
        cmocka_unit_test(test_means_and_rates),
        cmocka_unit_test(test_less_than_a_second_is_one),
        cmocka_unit_test(test_old_seconds_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

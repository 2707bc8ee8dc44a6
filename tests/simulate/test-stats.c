/* SPDX-License-Identifier: MIT */
#include "daemon/simulate/stats.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

static bool near(double a, double b, double of)
{
    return fabs(a - b) <= of * fabs(b);
}

static void test_quantiles(void **state)
{
    static struct stats s;
    memset(&s, 0, sizeof(s));
    assert_true(stats_quantile(&s, 0.5) == 0);
    assert_true(stats_mean(&s) == 0);
    for (int i = 1; i <= 1000; i++) stats_add(&s, (i * 617) % 1001); /* 1 … 1000 in some order */
    assert_int_equal(s.n, 1000);
    assert_true(near(stats_mean(&s), 500.5, 1e-12));
    assert_true(near(stats_quantile(&s, 0.5), 500, 0.0051));
    assert_true(near(stats_quantile(&s, 0.95), 950, 0.0051));
    assert_true(near(stats_quantile(&s, 0.99), 990, 0.0051));
    assert_true(stats_quantile(&s, 1) == 1000);
    assert_true(near(stats_quantile(&s, 0.001), 1, 0.0051));
}

static void test_extremes(void **state)
{
    static struct stats s;
    memset(&s, 0, sizeof(s));
    stats_add(&s, 0);
    stats_add(&s, 0);
    stats_add(&s, 1e15);
    assert_true(stats_quantile(&s, 0.5) == 0);
    assert_true(stats_quantile(&s, 1) >= 1e9);
    assert_true(s.most == 1e15);
}

static void test_jain(void **state)
{
    const double alike[] = {3, 3, 3, 3}, one[] = {0, 7, 0, 0}, some[] = {1, 2, 3};
    assert_true(near(stats_jain(alike, 4), 1, 1e-12));
    assert_true(near(stats_jain(one, 4), 0.25, 1e-12));
    assert_true(near(stats_jain(some, 3), 36.0 / 42, 1e-12));
    assert_true(stats_jain(some, 0) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantiles),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_jain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

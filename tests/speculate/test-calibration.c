/* SPDX-License-Identifier: MIT */
/* The chances of a draft model's tokens, and what is learned of them. */
#include "daemon/speculate/calibration.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void learn(struct calibration *c, float probability, int tried, int hits)
{
    for (int i = 0; i < tried; i++) calibration_learn(c, probability, i < hits);
}

/* Without experience the model is believed, but never wholly. */
static void test_nothing_is_known(void **state)
{
    const struct calibration none = {0};
    assert_true(calibration_is_new(&none));
    for (float p = 0.05f; p < 0.95f; p += 0.1f) assert_true(fabsf(calibration_chance(&none, &none, p) - p) < 1e-6f);
    assert_true(calibration_chance(&none, &none, 1) < 1);
    assert_true(calibration_mean(&none, &none) > 0.5f && calibration_mean(&none, &none) < 1);
    assert_true(calibration_chance(&none, &none, NAN) != 2); /* any value, without a fault */
}

static void test_experience_counts(void **state)
{
    struct calibration own = {0}, user = {0};
    learn(&user, 0.9f, 60, 6);
    assert_false(calibration_is_new(&user));
    float chance = calibration_chance(&own, &user, 0.9f);
    assert_true(chance > 0.1f && chance < 0.2f);
    assert_true(fabsf(calibration_chance(&own, &user, 0.3f) - 0.3f) < 1e-6f); /* of another class nothing is known */
    /* the sequence's own counts more */
    learn(&own, 0.9f, 60, 60);
    assert_true(calibration_chance(&own, &user, 0.9f) > 0.9f);
    assert_true(calibration_mean(&own, &user) > 0.9f);
}

static void test_old_experience_fades(void **state)
{
    struct calibration own = {0}, user = {0};
    learn(&own, 0.5f, 10000, 10000);
    learn(&own, 0.5f, 200, 0);
    assert_true(calibration_chance(&own, &user, 0.5f) < 0.15f);
    learn(&own, 0.5f, 200, 200);
    assert_true(calibration_chance(&own, &user, 0.5f) > 0.85f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_known),
        cmocka_unit_test(test_experience_counts),
        cmocka_unit_test(test_old_experience_fades),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "daemon/speculate/pace.h"
#include "tests/libcommon/check.h"

static void test_begins_with_usual_texts(void **state)
{
    struct pace p = {0}, user = {0};
    float before = 0;
    for (uint32_t length = 1; length <= 32; length *= 2) {
        float c = pace_chance(&p, &user, false, length, 1);
        assert_true(c > before && c < 1);
        assert_true(pace_chance(&p, &user, true, length, 1) >= c);
        assert_true(pace_chance(&p, &user, false, length, 0.5f) == c / 2);
        before = c;
    }
}

/* A sequence learns from its own tokens within some of them, whatever its user's past was; other lengths are not
 * affected. */
static void test_learns(void **state)
{
    struct pace p = {0}, user = {0};
    float other = pace_chance(&p, &user, false, 20, 1);
    for (int i = 0; i < 200; i++) pace_learn(&user, false, 4, 1, true);
    assert_true(pace_chance(&p, &user, false, 3, 1) > 0.75f);
    for (int i = 0; i < 12; i++) pace_learn(&p, false, 4, 1, false);
    assert_true(pace_chance(&p, &user, false, 3, 1) < 0.3f);
    for (int i = 0; i < 500; i++) pace_learn(&p, false, 4, 1, false);
    assert_true(pace_chance(&p, &user, false, 3, 1) < 0.2f);
    for (int i = 0; i < 40; i++) pace_learn(&p, false, 4, 1, true);
    assert_true(pace_chance(&p, &user, false, 3, 1) > 0.5f); /* what is old fades */
    assert_true(pace_chance(&p, &user, false, 20, 1) == other);
}

static void test_never_sure(void **state)
{
    struct pace p = {0}, user = {0};
    for (int i = 0; i < 1000; i++) {
        pace_learn(&p, true, 40, 0.25f, true);
        pace_learn(&user, true, 40, 1, true);
        assert_true(pace_chance(&p, &user, true, 40, 1) < 0.99f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_begins_with_usual_texts),
        cmocka_unit_test(test_learns),
        cmocka_unit_test(test_never_sure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

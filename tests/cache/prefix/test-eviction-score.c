/* SPDX-License-Identifier: MIT */
#include "daemon/cache/prefix/eviction-score.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

static struct eviction_score r;

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static int setup(void **state)
{
    eviction_score_init(&r);
    return 0;
}

static void test_ages(void **state)
{
    const uint64_t begins[] = {0, 1, 1, 2, 3, 5, 7, 11, 15, 22, 31}; /* 2^(k/2) - 1, rounded up */
    for (uint32_t k = 2; k < 11; k++) assert_int_equal(eviction_score_age(begins[k]), k);
    assert_int_equal(eviction_score_age(0), 0);
    for (uint64_t a = 1; a < 100000; a++) {
        uint32_t k = eviction_score_age(a);
        assert_true(exp2(k / 2.0) <= (double)(a + 1) * 1.0000001 && (double)(a + 1) < exp2((k + 1) / 2.0) * 1.0000001);
    }
    for (int bit = 1; bit < 64; bit++)
        assert_true(eviction_score_age(1ull << bit) >= eviction_score_age((1ull << bit) - 1));
    assert_int_equal(eviction_score_age(UINT64_MAX - 1), SCORE_AGES - 1);
}

/* The order has each class and age once, the lowest score first. */
static void check_order(void)
{
    bool seen[SCORE_CLASSES][SCORE_AGES] = {0};
    double before = 0;
    for (uint32_t i = 0; i < SCORE_CELLS; i++) {
        const struct eviction_score_cell *c = &r.order[i];
        assert_true(c->class < SCORE_CLASSES && c->age < SCORE_AGES && !seen[c->class][c->age]);
        seen[c->class][c->age] = true;
        assert_true(r.value[c->class][c->age] >= before);
        before = r.value[c->class][c->age];
        if (i && before == r.value[r.order[i - 1].class][r.order[i - 1].age])
            assert_true(r.order[i - 1].age > c->age ||
                        (r.order[i - 1].age == c->age && r.order[i - 1].class < c->class));
    }
}

/* Without samples a younger block has a higher score, whatever its uses. */
static void test_starts_as_lru(void **state)
{
    check_order();
    for (uint64_t age = 1; age < 1 << 20; age *= 2)
        for (uint32_t uses = 1; uses < 10; uses++) {
            assert_true(eviction_score_of(&r, uses, age) > eviction_score_of(&r, uses, 2 * age));
            assert_true(eviction_score_of(&r, uses, age) == eviction_score_of(&r, 1, age));
        }
}

/* Every tenth block is used again after 200, three times; the others never are. */
static void test_learns_uses_and_ages(void **state)
{
    for (uint64_t now = 1; now < 60000; now++) {
        eviction_score_learn(&r, mix(now), now, 1);
        for (uint64_t back = 1; back <= 3; back++)
            if (now > 200 * back && (now - 200 * back) % 10 == 0)
                eviction_score_learn(&r, mix(now - 200 * back), now, (uint32_t)back + 1);
    }
    assert_true(eviction_score_of(&r, 2, 150) >
                5 * eviction_score_of(&r, 1, 150)); /* used again once: likely used again */
    assert_true(eviction_score_of(&r, 2, 150) >
                2 * eviction_score_of(&r, 2, 10)); /* older, with a higher score: the use is near */
    assert_true(eviction_score_of(&r, 2, 150) > 5 * eviction_score_of(&r, 2, 1000)); /* the use has not come */
    assert_true(eviction_score_of(&r, 1, 150) > 2 * eviction_score_of(&r, 1, 1000));
    check_order();
    assert_true(eviction_score_of(&r, 4, 150) < eviction_score_of(&r, 2, 150) / 2); /* no block has a fifth use */
}

/* More keys than samples, badly mixed keys, a clock that goes back: the invariants hold. */
static void test_many_keys(void **state)
{
    for (uint64_t i = 0; i < 400000; i++) {
        eviction_score_learn(&r, i % 3 ? mix(i) : i << 40, i % 1000 ? i : 0, (uint32_t)(i % 9));
        assert_true(r.n <= SCORE_SAMPLES * 3 / 4);
    }
    uint32_t n = 0;
    for (int i = 0; i < SCORE_SAMPLES; i++) n += r.samples[i].key != 0;
    assert_int_equal(n, r.n);
    assert_true(r.shift > 0);
    for (uint32_t uses = 0; uses < 8; uses++)
        for (uint64_t age = 0; age < 1 << 20; age = 2 * age + 1)
            assert_true(isfinite(eviction_score_of(&r, uses, age)) && eviction_score_of(&r, uses, age) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_ages, setup),
        cmocka_unit_test_setup(test_starts_as_lru, setup),
        cmocka_unit_test_setup(test_learns_uses_and_ages, setup),
        cmocka_unit_test_setup(test_many_keys, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "daemon/cache/prefix/eviction-score.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

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

static void test_classes_and_last_age(void **state)
{
    for (uint32_t uses = 1; uses < 20; uses++)
        assert_int_equal(eviction_score_class(uses), uses < SCORE_CLASSES ? uses - 1 : SCORE_CLASSES - 1);
    assert_int_equal(eviction_score_class(0), 0);
    const uint64_t last = (1ull << (SCORE_AGES - 1) / 2) * M_SQRT2; /* where the last age begins */
    assert_int_equal(eviction_score_age(last - 2), SCORE_AGES - 2);
    for (uint64_t a = last; a < UINT64_MAX / 2; a += a / 3) assert_int_equal(eviction_score_age(a), SCORE_AGES - 1);
    assert_int_equal(eviction_score_age(1ull << SCORE_AGES / 2), SCORE_AGES - 1);
}

/* The order follows from the scores alone, whatever it was before. */
static void test_order_of_equals(void **state)
{
    struct eviction_score_cell was[SCORE_CELLS];
    memcpy(was, r.order, sizeof(was));
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = SCORE_CELLS; i-- > 1;) {
            const uint32_t k = (uint32_t)(mix(i + 1000 * round) % (i + 1));
            const struct eviction_score_cell x = r.order[i];
            r.order[i] = r.order[k];
            r.order[k] = x;
        }
        for (uint32_t i = 0; i < 1024; i++) eviction_score_learn(&r, 0, i, 1); /* no sample */
        assert_int_equal(r.n, 0);
        for (uint32_t i = 0; i < SCORE_CELLS; i++)
            assert_true(r.order[i].class == was[i].class && r.order[i].age == was[i].age);
    }
}

/* --- compared with a list --- */

/* The same samples and counts, kept in a plain list: the definition, without a table that probes and moves. */
static struct {
    struct eviction_score_sample samples[SCORE_SAMPLES];
    uint32_t n, shift, since;
    double again[SCORE_CLASSES][SCORE_AGES], alive[SCORE_CLASSES][SCORE_AGES];
} list;

static void list_age(struct eviction_score_sample *s, uint64_t now)
{
    const uint32_t age = eviction_score_age(now > s->used ? now - s->used : 0);
    for (; s->age < age; s->age++) list.alive[s->class][s->age + 1]++;
}

static void list_keep(bool oldest)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list.n; i++) {
        const struct eviction_score_sample *s = &list.samples[i];
        if (oldest ? s->age == SCORE_AGES - 1 : s->key % (1ull << list.shift) != 0) continue;
        list.samples[kept++] = *s;
    }
    list.n = kept;
}

static void list_learn(uint64_t key, uint64_t now, uint32_t uses)
{
    if (++list.since == 1024) {
        list.since = 0;
        for (uint32_t i = 0; i < list.n; i++) list_age(&list.samples[i], now);
        list_keep(true);
        for (uint32_t c = 0; c < SCORE_CLASSES; c++)
            for (uint32_t k = 0; k < SCORE_AGES; k++) list.again[c][k] *= 0.995, list.alive[c][k] *= 0.995;
    }
    if (!key || key % (1ull << list.shift)) return;
    uint32_t i = 0;
    while (i < list.n && list.samples[i].key != key) i++;
    if (i < list.n) {
        list_age(&list.samples[i], now);
        list.again[list.samples[i].class][list.samples[i].age]++;
    } else if (list.n >= SCORE_SAMPLES * 3 / 4) {
        list.shift++;
        list_keep(false);
        if (key % (1ull << list.shift) || list.n >= SCORE_SAMPLES * 3 / 4) return;
        i = list.n;
    }
    list.n += i == list.n;
    list.samples[i] = (struct eviction_score_sample){.key = key, .used = now, .class = eviction_score_class(uses)};
    list.alive[list.samples[i].class][0]++;
}

/* Each sample is where a search from its home finds it, and there are no others. */
static void check_samples(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < list.n; i++) {
        const struct eviction_score_sample *s = &list.samples[i];
        uint32_t k = (uint32_t)(s->key >> 32) % SCORE_SAMPLES;
        while (r.samples[k].key && r.samples[k].key != s->key) k = (k + 1) % SCORE_SAMPLES;
        assert_true(r.samples[k].key == s->key && r.samples[k].used == s->used);
        assert_true(r.samples[k].class == s->class && r.samples[k].age == s->age);
    }
    for (uint32_t i = 0; i < SCORE_SAMPLES; i++) n += r.samples[i].key != 0;
    assert_true(n == list.n && r.n == n && r.shift == list.shift && r.since == list.since);
    assert_memory_equal(r.again, list.again, sizeof(r.again));
    assert_memory_equal(r.alive, list.alive, sizeof(r.alive));
}

/* Keys whose homes are close together or at the end of the table; blocks that come back, or grow so old that they are
 * forgotten; so many that fewer are sampled. */
static void test_as_a_list(void **state)
{
    uint64_t now = 1;
    memset(&list, 0, sizeof(list));
    for (uint64_t i = 0; i < 24000; i++) {
        const uint64_t z = mix(i + 1), home = z % 3 ? z % 64 : SCORE_SAMPLES - 1 - z % 5;
        uint64_t key = z % 4 ? home << 32 | (mix(z) & 0xffff) << 2 : mix(z % 9000);
        if (i % 17 == 3) key = 0;
        if (i == 9000) now += 1ull << 40; /* all that there are become the oldest */
        now += z % 7;
        eviction_score_learn(&r, key, now - z % 3, (uint32_t)(z % 9));
        list_learn(key, now - z % 3, (uint32_t)(z % 9));
        if (i % 501 == 0 || (i > 1000 && i < 1100)) check_samples();
    }
    assert_true(list.shift > 0);
    check_samples();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_ages, setup),
        cmocka_unit_test_setup(test_starts_as_lru, setup),
        cmocka_unit_test_setup(test_learns_uses_and_ages, setup),
        cmocka_unit_test_setup(test_many_keys, setup),
        cmocka_unit_test_setup(test_classes_and_last_age, setup),
        cmocka_unit_test_setup(test_order_of_equals, setup),
        cmocka_unit_test_setup(test_as_a_list, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

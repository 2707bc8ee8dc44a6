/* SPDX-License-Identifier: MIT */
#include "daemon/cache/kv/kv-pool.h"
#include "libcommon/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define N 37

static uint64_t rnd_state = 1;

static uint32_t rnd(uint32_t n)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rnd_state >> 33) % n;
}

static void test_all_blocks_once(void **state)
{
    struct kv_pool *p = NULL;
    assert_int_equal(kv_pool_new(&p, N), 0);
    uint8_t seen[N] = {0};
    uint32_t id;
    for (int i = 0; i < N; i++) {
        assert_int_equal(kv_pool_take(p, &id), 0);
        assert_true(id < N);
        assert_int_equal(seen[id]++, 0);
    }
    id = 4711;
    assert_int_equal(kv_pool_take(p, &id), -ENOBUFS);
    assert_int_equal(id, 4711);
    for (uint32_t i = 0; i < N; i++) kv_pool_unref(p, i);
    assert_int_equal(kv_pool_free_blocks(p), N);
    assert_null(kv_pool_free(p));
}

static void test_empty_pool(void **state)
{
    struct kv_pool *p = NULL;
    uint32_t id;
    assert_int_equal(kv_pool_new(&p, 0), 0);
    assert_int_equal(kv_pool_take(p, &id), -ENOBUFS);
    assert_int_equal(kv_pool_total(p), 0);
    kv_pool_free(p);
    assert_null(kv_pool_free(NULL));
}

/* Random operations against plain counters. */
static void test_random_against_model(void **state)
{
    struct kv_pool *p = NULL;
    uint32_t refs[N] = {0};
    assert_int_equal(kv_pool_new(&p, N), 0);
    for (int step = 0; step < 20000; step++) {
        uint32_t i = rnd(N), id, used = 0;
        switch (rnd(3)) {
        case 0:
            for (uint32_t k = 0; k < N; k++) used += refs[k] != 0;
            if (used == N) {
                assert_int_equal(kv_pool_take(p, &id), -ENOBUFS);
                break;
            }
            assert_int_equal(kv_pool_take(p, &id), 0);
            assert_int_equal(refs[id], 0);
            refs[id] = 1;
            break;
        case 1:
            if (refs[i]) kv_pool_ref(p, i), refs[i]++;
            break;
        case 2:
            if (refs[i]) kv_pool_unref(p, i), refs[i]--;
            break;
        }
        used = 0;
        for (uint32_t k = 0; k < N; k++) {
            assert_int_equal(kv_pool_refs(p, k), refs[k]);
            used += refs[k] != 0;
        }
        assert_int_equal(kv_pool_free_blocks(p), N - used);
    }
    for (uint32_t k = 0; k < N; k++)
        while (refs[k]--) kv_pool_unref(p, k);
    kv_pool_free(p);
}

/* A sweep returns each used free block once, in runs, and again after its next use. */
static void test_sweep(void **state)
{
    struct kv_pool *p = NULL;
    uint32_t id, at = 0;
    assert_int_equal(kv_pool_new(&p, N), 0);
    assert_int_equal(kv_pool_sweep(p, &at, N), 0);                          /* no block was ever taken */
    for (int i = 0; i < 10; i++) assert_int_equal(kv_pool_take(p, &id), 0); /* 0 … 9 */
    at = 0;
    assert_int_equal(kv_pool_sweep(p, &at, N), 0); /* no block is free */
    for (uint32_t i = 0; i < 10; i++)
        if (i != 4) kv_pool_unref(p, i);
    at = 0;
    assert_int_equal(kv_pool_sweep(p, &at, 3), 3); /* 0 … 2, no more than asked for */
    assert_int_equal(at, 0);
    at = 0;
    assert_int_equal(kv_pool_sweep(p, &at, N), 1); /* 3; 4 is in use */
    assert_int_equal(at, 3);
    at = 4;
    assert_int_equal(kv_pool_sweep(p, &at, N), 5); /* 5 … 9 */
    assert_int_equal(at, 5);
    at = 0;
    assert_int_equal(kv_pool_sweep(p, &at, N), 0);
    assert_int_equal(kv_pool_take(p, &id), 0); /* the one that became free last */
    kv_pool_unref(p, id);
    at = 0;
    assert_int_equal(kv_pool_sweep(p, &at, N), 1);
    assert_int_equal(at, id);
    at = N;
    assert_int_equal(kv_pool_sweep(p, &at, N), 0);
    kv_pool_unref(p, 4);
    kv_pool_free(p);
}

/* Fewer blocks, and more again: those in use stay, the others are handed out as there are. */
static void test_limit(void **state)
{
    struct kv_pool *p = NULL;
    uint32_t id;
    assert_int_equal(kv_pool_new(&p, N), 0);
    for (uint32_t i = 0; i < 6; i++) assert_int_equal(kv_pool_take(p, &id), 0); /* 0 … 5 */
    kv_pool_unref(p, 5);
    kv_pool_unref(p, 2);
    kv_pool_limit(p, 5);
    assert_int_equal(kv_pool_total(p), 5);
    assert_int_equal(kv_pool_free_blocks(p), 1);
    assert_int_equal(kv_pool_take(p, &id), 0);
    assert_int_equal(id, 2);
    assert_int_equal(kv_pool_take(p, &id), -ENOBUFS);
    kv_pool_limit(p, 7);
    assert_int_equal(kv_pool_free_blocks(p), 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(kv_pool_take(p, &id), 0);
        assert_in_range(id, 5, 6);
    }
    assert_int_equal(kv_pool_take(p, &id), -ENOBUFS);
    for (uint32_t i = 0; i < 7; i++) kv_pool_unref(p, i);
    kv_pool_limit(p, N);
    assert_int_equal(kv_pool_free_blocks(p), N);
    kv_pool_limit(p, 0);
    assert_int_equal(kv_pool_take(p, &id), -ENOBUFS);
    kv_pool_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_blocks_once),
        cmocka_unit_test(test_empty_pool),
        cmocka_unit_test(test_random_against_model),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

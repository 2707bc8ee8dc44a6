/* SPDX-License-Identifier: MIT */
#include "daemon/cache/kv_table.h"
#include "libcommon/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define N      24
#define TABLES 5
#define TOKENS (8 * KV_TABLE_BLOCK)

static uint64_t rnd_state = 1;

static uint32_t rnd(uint32_t n)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rnd_state >> 33) % n;
}

static void test_reserve_exact(void **state)
{
    struct kv_pool *p = NULL;
    assert_int_equal(kv_pool_new(&p, 4), 0);
    struct kv_table t = {0};
    assert_int_equal(kv_table_reserve(&t, p, 0), 0);
    assert_int_equal(t.n_blocks, 0);
    assert_int_equal(kv_table_reserve(&t, p, 32), 0);
    assert_int_equal(t.n_blocks, 1);
    assert_int_equal(kv_table_reserve(&t, p, 33), 0);
    assert_int_equal(t.n_blocks, 2);
    assert_int_equal(kv_table_reserve(&t, p, 4 * 32 + 1), -ENOBUFS);
    assert_int_equal(t.n_blocks, 2);
    assert_int_equal(kv_pool_free_blocks(p), 2);
    kv_table_truncate(&t, p, 32);
    assert_int_equal(t.n_blocks, 1);
    kv_table_fini(&t, p);
    assert_int_equal(kv_pool_free_blocks(p), 4);
    kv_pool_free(p);
}

static void test_fork_then_unshare(void **state)
{
    struct kv_pool *p = NULL;
    assert_int_equal(kv_pool_new(&p, 4), 0);
    struct kv_table a = {0}, b = {0};
    uint32_t src = 99, dst = 99;
    assert_int_equal(kv_table_reserve(&a, p, 40), 0);
    a.n_tokens = 40;
    assert_int_equal(kv_table_unshare(&a, p, &src, &dst), 0);
    assert_int_equal(kv_table_fork(&b, &a, p), 0);
    assert_int_equal(kv_pool_free_blocks(p), 2);
    uint32_t old = b.ids[1];
    assert_int_equal(kv_table_unshare(&b, p, &src, &dst), 1);
    assert_int_equal(src, old);
    assert_int_equal(b.ids[1], dst);
    assert_int_not_equal(src, dst);
    kv_pool_unref(p, src);
    assert_int_equal(kv_table_unshare(&b, p, &src, &dst), 0);
    assert_int_equal(kv_table_unshare(&a, p, &src, &dst), 0);
    assert_int_equal(kv_pool_refs(p, a.ids[0]), 2);
    /* on a block boundary there is nothing to copy */
    kv_table_truncate(&b, p, 32);
    assert_int_equal(kv_table_unshare(&b, p, &src, &dst), 0);
    kv_table_fini(&a, p);
    kv_table_fini(&b, p);
    kv_pool_free(p);
}

/* What every block must count is how many tables list it. */
static void check_refs(const struct kv_table *t, const struct kv_pool *p)
{
    uint32_t refs[N] = {0}, used = 0;
    for (int i = 0; i < TABLES; i++) {
        assert_true(t[i].n_blocks >= kv_table_blocks(t[i].n_tokens));
        for (uint32_t k = 0; k < t[i].n_blocks; k++) refs[t[i].ids[k]]++;
    }
    for (uint32_t k = 0; k < N; k++) {
        assert_int_equal(kv_pool_refs(p, k), refs[k]);
        used += refs[k] != 0;
    }
    assert_int_equal(kv_pool_free_blocks(p), N - used);
}

/*
 * Random reserve, write, truncate, fork. Each position remembers who wrote it last, by block and slot; a table must
 * always read back what it wrote or inherited, whatever its forks did.
 */
static void test_random_contents(void **state)
{
    struct kv_pool *p = NULL;
    assert_int_equal(kv_pool_new(&p, N), 0);
    struct kv_table t[TABLES] = {0};
    static uint32_t mem[N][KV_TABLE_BLOCK], want[TABLES][TOKENS], stamp;
    for (int step = 0; step < 20000; step++) {
        uint32_t i = rnd(TABLES), j = rnd(TABLES), src, dst;
        switch (rnd(4)) {
        case 0:
        case 1: { /* write some tokens */
            uint32_t n = t[i].n_tokens + 1 + rnd(40);
            if (n > TOKENS) break;
            int r = kv_table_unshare(&t[i], p, &src, &dst);
            if (r == -ENOBUFS) break;
            if (r == 1) {
                memcpy(mem[dst], mem[src], t[i].n_tokens % KV_TABLE_BLOCK * sizeof(mem[0][0]));
                kv_pool_unref(p, src);
            }
            if (kv_table_reserve(&t[i], p, n) < 0) break;
            for (uint32_t k = t[i].n_tokens; k < n; k++)
                mem[t[i].ids[k / KV_TABLE_BLOCK]][k % KV_TABLE_BLOCK] = want[i][k] = ++stamp;
            t[i].n_tokens = n;
            break;
        }
        case 2:
            kv_table_truncate(&t[i], p, rnd(t[i].n_tokens + 1));
            break;
        case 3:
            if (i == j) break;
            kv_table_fini(&t[i], p);
            assert_int_equal(kv_table_fork(&t[i], &t[j], p), 0);
            memcpy(want[i], want[j], sizeof(want[0]));
            break;
        }
        check_refs(t, p);
        for (uint32_t k = 0; k < TABLES; k++)
            for (uint32_t m = 0; m < t[k].n_tokens; m++)
                assert_int_equal(mem[t[k].ids[m / KV_TABLE_BLOCK]][m % KV_TABLE_BLOCK], want[k][m]);
    }
    for (int k = 0; k < TABLES; k++) kv_table_fini(&t[k], p);
    kv_pool_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reserve_exact),
        cmocka_unit_test(test_fork_then_unshare),
        cmocka_unit_test(test_random_contents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

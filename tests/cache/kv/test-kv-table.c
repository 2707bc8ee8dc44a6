/* SPDX-License-Identifier: MIT */
#include "daemon/cache/kv/kv-table.h"
#include "libcommon/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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
    kv_table_fini(&t, p);
    assert_int_equal(kv_pool_free_blocks(p), 4);
    kv_pool_free(p);
}

/* A rotated block becomes the next one, unless another table refers to it too. */
static void test_rotate(void **state)
{
    struct kv_pool *p = NULL;
    assert_int_equal(kv_pool_new(&p, 6), 0);
    struct kv_table t = {0};
    assert_int_equal(kv_table_reserve(&t, p, 4 * 32), 0);
    uint32_t shared = t.ids[1], own = t.ids[2];
    kv_pool_ref(p, shared);
    assert_int_equal(kv_table_rotate(&t, p, 1, 3, 5), 0);
    assert_int_equal(t.n_blocks, 5);
    assert_int_equal(t.ids[1], KV_NO_BLOCK);
    assert_int_equal(t.ids[2], KV_NO_BLOCK);
    assert_int_equal(t.ids[4], own);
    assert_int_equal(kv_pool_refs(p, shared), 1);
    assert_int_equal(kv_pool_free_blocks(p), 2);
    assert_int_equal(kv_table_rotate(&t, p, 0, 4, 5), 0); /* the table has enough blocks: the others become free */
    assert_int_equal(t.n_blocks, 5);
    assert_int_equal(kv_pool_free_blocks(p), 4);
    assert_int_equal(kv_table_reserve(&t, p, 7 * 32), 0);
    assert_int_equal(t.n_blocks, 7);
    kv_table_fini(&t, p);
    kv_pool_unref(p, shared);
    assert_int_equal(kv_pool_free_blocks(p), 6);
    kv_pool_free(p);
}

/* What is left out has no block, and what comes behind it does. */
static void test_skip(void **state)
{
    struct kv_pool *p = NULL;
    assert_int_equal(kv_pool_new(&p, 6), 0);
    struct kv_table t = {0};
    assert_int_equal(kv_table_reserve(&t, p, 4 * 32), 0);
    const uint32_t last = t.ids[3];
    assert_int_equal(kv_table_skip(&t, p, 3), 0);
    assert_true(t.n_blocks == 4 && t.ids[2] == KV_NO_BLOCK && t.ids[3] == last);
    assert_int_equal(kv_pool_free_blocks(p), 5);
    assert_int_equal(kv_table_skip(&t, p, 20), 0);
    assert_true(t.n_blocks == 20 && t.ids[3] == KV_NO_BLOCK && t.ids[19] == KV_NO_BLOCK);
    assert_int_equal(kv_pool_free_blocks(p), 6);
    assert_int_equal(kv_table_reserve(&t, p, 22 * 32), 0);
    assert_true(t.n_blocks == 22 && t.ids[21] != KV_NO_BLOCK);
    assert_int_equal(kv_pool_free_blocks(p), 4);
    kv_table_fini(&t, p);
    assert_int_equal(kv_pool_free_blocks(p), 6);
    kv_pool_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reserve_exact),
        cmocka_unit_test(test_rotate),
        cmocka_unit_test(test_skip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

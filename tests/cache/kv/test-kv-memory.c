/* SPDX-License-Identifier: MIT */
/* Pools and tables of KV blocks without memory, and what needs none. */
#include "daemon/cache/kv/kv-pool.h"
#include "daemon/cache/kv/kv-table.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include "tests/support/memory.h"
#include <malloc.h>

static size_t used_memory(void)
{
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static void test_pool(void **state)
{
    struct kv_pool *p = NULL;
    unsigned long n = 0;
    for (int r = -ENOMEM; r < 0; n++) {
        memory_fail(n);
        r = kv_pool_new(&p, 4);
        assert_int_equal(r, memory_end() ? -ENOMEM : 0);
        assert_true(r == 0 || !p);
    }
    assert_int_equal(n, 5); /* the pool and three arrays */
    assert_null(kv_pool_free(p));
    assert_int_equal(kv_pool_new(&p, 100000), 0);
    const size_t with = used_memory();
    assert_null(kv_pool_free(p));
    assert_true(!with || used_memory() < with - 500000); /* a sanitizer's allocator counts nothing */
    assert_null(kv_pool_free(NULL));
}

/* A table keeps the room that it has. */
static void test_room(void **state)
{
    struct kv_pool *p;
    struct kv_table t = {0};
    assert_int_equal(kv_pool_new(&p, 8), 0);
    assert_int_equal(kv_table_grow(&t, 6), 0);
    memory_fail(0); /* for all that follows */
    assert_int_equal(kv_table_grow(&t, 6), 0);
    assert_int_equal(kv_table_grow(&t, 2), 0);
    assert_int_equal(t.cap, 6);
    assert_int_equal(kv_table_reserve(&t, p, 6 * KV_BLOCK), 0);
    assert_int_equal(kv_table_reserve(&t, p, KV_BLOCK), 0); /* it has more */
    assert_int_equal(t.n_blocks, 6);
    assert_int_equal(kv_table_rotate(&t, p, 0, 2, 6), 0);
    assert_false(memory_end());
    kv_table_fini(&t, p);
    assert_int_equal(kv_pool_free_blocks(p), 8);
    kv_pool_free(p);
}

static void test_table_without_memory(void **state)
{
    struct kv_pool *p;
    struct kv_table t = {0};
    assert_int_equal(kv_pool_new(&p, 8), 0);
    assert_int_equal(kv_table_reserve(&t, p, 2 * KV_BLOCK), 0);
    const uint32_t ids[2] = {t.ids[0], t.ids[1]};
    for (int what = 0; what < 4; what++) {
        memory_fail(0);
        const int r = what == 0   ? kv_table_grow(&t, 3)
                      : what == 1 ? kv_table_reserve(&t, p, 3 * KV_BLOCK)
                      : what == 2 ? kv_table_skip(&t, p, 3)
                                  : kv_table_rotate(&t, p, 0, 1, 3);
        assert_int_equal(r, -ENOMEM);
        assert_true(memory_end());
        assert_true(t.n_blocks == 2 && t.cap == 2 && t.ids[0] == ids[0] && t.ids[1] == ids[1]);
        assert_int_equal(kv_pool_free_blocks(p), 6);
    }
    kv_table_fini(&t, p);
    kv_pool_free(p);
}

/* Only blocks that the table has are rotated. */
static void test_rotate_to_the_end(void **state)
{
    struct kv_pool *p;
    struct kv_table t = {0}, other = {0};
    assert_int_equal(kv_pool_new(&p, 8), 0);
    assert_int_equal(kv_table_reserve(&other, p, KV_BLOCK), 0);
    assert_int_equal(kv_table_grow(&t, 6), 0);
    for (uint32_t i = 0; i < 6; i++) t.ids[i] = other.ids[0]; /* what memory happens to hold */
    assert_int_equal(kv_table_reserve(&t, p, 2 * KV_BLOCK), 0);
    const uint32_t second = t.ids[1];
    assert_int_equal(kv_table_rotate(&t, p, 1, 6, 2), 0);
    assert_true(t.n_blocks == 2 && t.ids[1] == KV_NO_BLOCK);
    assert_int_equal(kv_pool_refs(p, second), 0);
    assert_int_equal(kv_pool_refs(p, other.ids[0]), 1);
    kv_table_fini(&t, p);
    kv_table_fini(&other, p);
    kv_pool_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_table_without_memory),
        cmocka_unit_test(test_rotate_to_the_end),
    };
    return cmocka_run_group_tests_name("kv-pool-memory", tests, NULL, NULL);
}

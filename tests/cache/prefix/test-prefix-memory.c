/* SPDX-License-Identifier: MIT */
/* Each allocation fails once: the index does not change, and nothing leaks (under ASan and valgrind). */
#include "libcommon/error.h"
#include "tests/cache/prefix/fixture.h"
#include "tests/support/memory.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_new(void **state)
{
    struct kv_pool *pool = NULL;
    struct prefix *p = NULL;
    int r = -ENOMEM, failed = 0;
    assert_int_equal(kv_pool_new(&pool, 4), 0);
    for (; r == -ENOMEM; failed++) {
        memory_fail((unsigned long)failed);
        r = prefix_new(&p, pool, NULL);
        memory_end();
        assert_true(r == 0 || (r == -ENOMEM && !p));
    }
    assert_true(failed > 5);
    prefix_free(p);
    kv_pool_free(pool);
}

/* A new namespace and a new uid, so that each allocation is made. */
static void test_add_and_adopt(void **state)
{
    struct fixture r;
    fixture_init(&r, 4);
    const struct prefix_namespace other = {{9}};
    const int32_t tokens[KV_BLOCK] = {1, 2, 3};
    struct prefix_info file = {.id = {1, 1}, .uid = 12, .n = 32, .namespace = {{8}}};
    struct prefix_node *a, *out = NULL;
    struct prefix_stats before, stats;
    uint32_t block;
    assert_int_equal(fixture_add(&r, NULL, 1, 7, 10, &a), 0);
    prefix_stats_get(r.p, (uid_t)-1, &before);
    assert_int_equal(kv_pool_take(r.pool, &block), 0);
    for (int what = 0; what < 2; what++) {
        int got = -ENOMEM, failed = 0;
        for (;; failed++) {
            out = NULL;
            memory_fail((unsigned long)failed);
            got = what == 0 ? prefix_add(r.p, &other, NULL, items_tokens(tokens, 32), block, 11, &out)
                            : prefix_disk_add(r.p, &file);
            memory_end();
            prefix_check(r.p);
            if (got != -ENOMEM) break;
            assert_null(out);
            prefix_stats_get(r.p, (uid_t)-1, &stats);
            assert_memory_equal(&stats, &before, sizeof(stats));
            assert_int_equal(kv_pool_refs(r.pool, block), 1);
        }
        assert_true(got == 0 && failed == 3); /* the namespace, the uid, the node */
        prefix_stats_get(r.p, (uid_t)-1, &before);
        if (what == 0) assert_int_equal(kv_pool_refs(r.pool, block), 2);
        if (what == 0) assert_int_equal(prefix_evict(r.p, 4, NULL, NULL), 2);
        prefix_stats_get(r.p, (uid_t)-1, &before);
    }
    kv_pool_unref(r.pool, block);
    fixture_fini(&r);
}

/* Without memory for a larger table the smaller one stays in use. */
static void test_table_cannot_grow(void **state)
{
    struct fixture r;
    fixture_init(&r, 1);
    struct prefix_info file = {.namespace = r.namespace, .uid = 10, .n = 32};
    for (int i = 1; i < 1000; i++) {
        file.id = (struct prefix_id){1, (uint64_t)i};
        file.tokens[0] = i;
        if (i % 2) memory_fail(1); /* the first allocation is the node's */
        assert_int_equal(prefix_disk_add(r.p, &file), i == 1 ? -ENOMEM : 0);
        memory_end();
    }
    prefix_check(r.p);
    fixture_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new),
        cmocka_unit_test(test_add_and_adopt),
        cmocka_unit_test(test_table_cannot_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "libcommon/clock.h"
#include "tests/cache/fixture.h"
#include <errno.h>
#include <string.h>

/* Room is made of blocks that nobody uses, and of no more than necessary. */
static void test_make_room(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    f->config.cache_dir = NULL;
    fixture_open(f);
    assert_int_equal(kv_pool_free_blocks(c->pools[0]), FIXTURE_BLOCKS);
    for (int32_t i = 1; i <= 10; i++) fixture_add(f, NULL, i);
    assert_true(kv_cache_make_room(c, 0, 2));
    assert_int_equal(kv_pool_free_blocks(c->pools[0]), 2);
    assert_true(kv_cache_make_room(c, 0, 5));
    assert_int_equal(kv_pool_free_blocks(c->pools[0]), 5);
    for (int32_t i = 1; i <= 10; i++) assert_int_equal(fixture_find(f, i) != NULL, i > 3); /* least recently used */
    struct prefix_node *held = fixture_find(f, 4);
    prefix_ref(c->prefix, held);
    assert_false(kv_cache_make_room(c, 0, FIXTURE_BLOCKS));
    assert_ptr_equal(fixture_find(f, 4), held);
    prefix_unref(c->prefix, held);
    assert_true(kv_cache_make_room(c, 0, FIXTURE_BLOCKS));
    assert_false(kv_cache_make_room(c, 0, FIXTURE_BLOCKS + 1));
    assert_int_equal(f->reads, 0); /* nothing is written without a directory */
}

/* A block that is indexed in two namespaces is free when both have evicted it. */
static void test_a_block_in_two_namespaces(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    struct prefix_namespace own;
    int32_t tokens[KV_BLOCK] = {0};
    struct prefix_node *x;
    f->config.cache_dir = NULL;
    fixture_open(f);
    kv_cache_namespace(c, &(struct namespace_owner){.uid = 1000}, &own);
    for (uint32_t i = 0; i < FIXTURE_BLOCKS; i++) {
        uint32_t block;
        tokens[0] = (int32_t)i;
        assert_int_equal(kv_pool_take(c->pools[0], &block), 0);
        assert_int_equal(prefix_add(c->prefix, &own, NULL, items_tokens(tokens, KV_BLOCK), block, 1000, &x), 0);
        assert_int_equal(
            prefix_add(c->prefix, &c->public_namespace, NULL, items_tokens(tokens, KV_BLOCK), block, 0, &x), 0);
        kv_pool_unref(c->pools[0], block);
    }
    assert_true(kv_cache_make_room(c, 0, 3));
    assert_true(kv_pool_free_blocks(c->pools[0]) >= 3);
    assert_true(kv_cache_make_room(c, 0, FIXTURE_BLOCKS));
}

/* A table that slides uses the blocks again that it leaves behind, then free ones, then evicts just enough. */
static void test_slide(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    struct kv_table t = {0};
    f->config.cache_dir = NULL;
    fixture_open(f);
    assert_int_equal(kv_cache_slide(c, 0, &t, 0, 0, 2 * KV_BLOCK + 1), 0);
    assert_int_equal(t.n_blocks, 3);
    const uint32_t first = t.ids[0], second = t.ids[1];
    for (uint32_t end = 1; end <= 3 * KV_BLOCK; end += KV_BLOCK) /* it covers them already */
        assert_int_equal(kv_cache_slide(c, 0, &t, 0, 2, end), 0);
    assert_int_equal(t.n_blocks, 3);
    assert_int_equal(t.ids[0], first);
    assert_int_equal(kv_pool_free_blocks(c->pools[0]), FIXTURE_BLOCKS - 3);
    for (int32_t i = 1; i <= 9; i++) fixture_add(f, NULL, i);
    assert_int_equal(kv_cache_slide(c, 0, &t, 0, 0, 5 * KV_BLOCK), 0);
    assert_int_equal(t.n_blocks, 5);
    for (int32_t i = 1; i <= 9; i++) assert_int_equal(fixture_find(f, i) != NULL, i > 2);
    assert_int_equal(kv_cache_slide(c, 0, &t, 0, 2, 7 * KV_BLOCK), 0); /* nothing is evicted */
    assert_int_equal(t.n_blocks, 7);
    assert_int_equal(t.ids[0], KV_NO_BLOCK);
    assert_true((t.ids[5] == first && t.ids[6] == second) || (t.ids[5] == second && t.ids[6] == first));
    for (int32_t i = 3; i <= 9; i++) prefix_ref(c->prefix, fixture_find(f, i));
    assert_int_equal(kv_cache_slide(c, 0, &t, 2, 2, 8 * KV_BLOCK), -ENOBUFS);
    assert_int_equal(t.n_blocks, 7);
    assert_int_equal(kv_cache_slide(c, 0, &t, 2, 3, 8 * KV_BLOCK), 0);
    for (int32_t i = 3; i <= 9; i++) prefix_unref(c->prefix, fixture_find(f, i));
    kv_table_fini(&t, c->pools[0]);
    assert_int_equal(kv_pool_free_blocks(c->pools[0]), FIXTURE_BLOCKS - 7);
}

/* A namespace is of a user and a salt, lasts as long as the secret, and is nobody else's. */
static void test_namespaces(void **state)
{
    struct fixture *f = *state;
    const struct namespace_owner owners[] = {
        {.uid = 1000}, {.uid = 1001}, {.uid = 1000, .salt = "pepper", .salt_len = 6}, {.public = true}};
    struct prefix_namespace first[4], again[4];
    fixture_open(f);
    for (int i = 0; i < 4; i++) {
        kv_cache_namespace(&f->cache, &owners[i], &first[i]);
        for (int k = 0; k < i; k++) assert_memory_not_equal(&first[i], &first[k], sizeof(first[i]));
    }
    assert_memory_equal(&first[3], &f->cache.public_namespace, sizeof(first[3]));
    fixture_close(f, 0);
    fixture_open(f);
    for (int i = 0; i < 4; i++) {
        kv_cache_namespace(&f->cache, &owners[i], &again[i]);
        assert_memory_equal(&first[i], &again[i], sizeof(first[i]));
    }
    fixture_close(f, 0);
    f->config.state_dir = NULL; /* a secret of this process only */
    fixture_open(f);
    kv_cache_namespace(&f->cache, &owners[0], &again[0]);
    assert_memory_not_equal(&first[0], &again[0], sizeof(first[0]));
    spill_turn(&f->cache, clock_now_usec(), 0);
    assert_null(spill_disk(&f->cache)); /* another process could not find these blocks */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_make_room),
        TEST(test_a_block_in_two_namespaces),
        TEST(test_slide),
        TEST(test_namespaces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

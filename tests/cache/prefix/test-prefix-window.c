/* SPDX-License-Identifier: MIT */
/* Groups with a window: which hits can be continued, which blocks are evicted, and which nodes are written to disk. */
#include "tests/cache/prefix/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define CHAIN  8
#define WINDOW 64 /* a token at 32 k sees blocks k - 1 and, but for one position, k - 2 */

struct chain {
    struct fixture rig;
    struct kv_pool *pool; /* of group 1 */
    struct prefix_node *nodes[CHAIN];
    int32_t tokens[CHAIN * KV_BLOCK];
};

static int setup(void **state)
{
    static struct chain c;
    fixture_init(&c.rig, 2 * CHAIN);
    assert_int_equal(kv_pool_new(&c.pool, 2 * CHAIN), 0);
    assert_int_equal(prefix_add_window(c.rig.p, c.pool, WINDOW), 0);
    for (int i = 0; i < CHAIN; i++) {
        uint32_t block;
        fixture_fill(c.tokens + i * KV_BLOCK, KV_BLOCK, 100 + i);
        assert_int_equal(fixture_add(&c.rig, i ? c.nodes[i - 1] : NULL, 100 + i, KV_BLOCK, 1, &c.nodes[i]), 0);
        assert_int_equal(prefix_window_block(c.nodes[i], 1), KV_NO_BLOCK);
        assert_int_equal(kv_pool_take(c.pool, &block), 0);
        prefix_window_attach(c.rig.p, c.nodes[i], 1, block, KV_BLOCK);
        kv_pool_unref(c.pool, block);
    }
    prefix_check(c.rig.p);
    *state = &c;
    return 0;
}

static int teardown(void **state)
{
    struct chain *c = *state;
    fixture_fini(&c->rig);
    kv_pool_free(c->pool); /* asserts that all blocks are free */
    return 0;
}

static uint32_t hit(const struct chain *c, uint32_t n)
{
    struct prefix_match m = fixture_find(&c->rig, c->tokens, n);
    assert_true(m.n ? m.node == c->nodes[m.n / KV_BLOCK - 1] : !m.node);
    return m.n + m.n_partial;
}

/* Evicts the windowed block of node @i: the others are used later. */
static void lose(struct chain *c, int i)
{
    uint32_t used[CHAIN], was = prefix_window_block(c->nodes[i], 1);
    for (int k = 0; k < CHAIN; k++)
        if ((used[k] = prefix_window_block(c->nodes[k], 1)) != KV_NO_BLOCK && k != i) kv_pool_ref(c->pool, used[k]);
    assert_int_not_equal(was, KV_NO_BLOCK);
    assert_int_equal(prefix_window_evict(c->rig.p, 1, CHAIN, NULL, NULL), 1); /* tables have all others */
    assert_int_equal(kv_pool_refs(c->pool, was), 0);
    for (int k = 0; k < CHAIN; k++)
        if (used[k] != KV_NO_BLOCK && k != i) kv_pool_unref(c->pool, used[k]);
    prefix_check(c->rig.p);
}

static void test_hits(void **state)
{
    struct chain *c = *state;
    assert_int_equal(hit(c, CHAIN * KV_BLOCK), CHAIN * KV_BLOCK);
    lose(c, 2);
    assert_int_equal(hit(c, 8 * KV_BLOCK), 8 * KV_BLOCK);
    assert_int_equal(hit(c, 5 * KV_BLOCK), 5 * KV_BLOCK); /* sees blocks 3 and 4 */
    assert_int_equal(hit(c, 4 * KV_BLOCK), 2 * KV_BLOCK); /* would see blocks 2 and 3 */
    assert_int_equal(hit(c, 4 * KV_BLOCK + 9), 2 * KV_BLOCK);
    assert_int_equal(hit(c, 3 * KV_BLOCK), 2 * KV_BLOCK);
    assert_int_equal(hit(c, 2 * KV_BLOCK + 5), 2 * KV_BLOCK); /* the partial match lacks its block */
    assert_int_equal(hit(c, 3 * KV_BLOCK + 5), 2 * KV_BLOCK);
    assert_int_equal(hit(c, 5 * KV_BLOCK + 5), 5 * KV_BLOCK + 5);
    lose(c, 7);
    assert_int_equal(hit(c, 8 * KV_BLOCK), 7 * KV_BLOCK);
    lose(c, 0);
    lose(c, 1);
    assert_int_equal(hit(c, 3 * KV_BLOCK), 0);
    struct prefix_match m = fixture_find(&c->rig, c->tokens, 3 * KV_BLOCK);
    assert_true(!m.node && !m.partial && m.miss == PREFIX_EVICTED);
}

/* A use keeps the blocks that its window reaches, and no others. */
static void test_least_recent_first(void **state)
{
    struct chain *c = *state;
    prefix_touch(c->rig.p, c->nodes[3]); /* blocks 2 and 3 become the latest */
    assert_int_equal(prefix_window_evict(c->rig.p, 1, 6, NULL, NULL), 6);
    prefix_check(c->rig.p);
    for (int i = 0; i < CHAIN; i++)
        assert_true((prefix_window_block(c->nodes[i], 1) != KV_NO_BLOCK) == (i == 2 || i == 3));
    assert_int_equal(hit(c, 8 * KV_BLOCK), 4 * KV_BLOCK);
    assert_int_equal(prefix_window_evict(c->rig.p, 1, 6, NULL, NULL), 2);
    assert_int_equal(kv_pool_free_blocks(c->pool), 2 * CHAIN);
    assert_int_equal(prefix_window_evict(c->rig.p, 1, 6, NULL, NULL), 0);
}

/* Pins do not keep windowed blocks, references do; a block of two nodes is free when both have lost it. */
static void test_users(void **state)
{
    struct chain *c = *state;
    struct prefix_namespace other = {{9}};
    struct prefix_node *twin;
    uint32_t full = prefix_block(c->nodes[0]), block = prefix_window_block(c->nodes[0], 1);
    prefix_ref(c->rig.p, c->nodes[CHAIN - 1]);
    kv_pool_ref(c->pool, prefix_window_block(c->nodes[5], 1));
    assert_int_equal(prefix_add(c->rig.p, &other, NULL, items_tokens(c->tokens, KV_BLOCK), full, 2, &twin), 0);
    prefix_window_attach(c->rig.p, twin, 1, block, KV_BLOCK);
    assert_int_equal(kv_pool_refs(c->pool, block), 2);
    prefix_check(c->rig.p);
    assert_int_equal(prefix_window_evict(c->rig.p, 1, 100, NULL, NULL), CHAIN); /* all but one, and the twin's */
    assert_int_equal(kv_pool_free_blocks(c->pool), 2 * CHAIN - 1);
    prefix_check(c->rig.p);
    kv_pool_unref(c->pool, prefix_window_block(c->nodes[5], 1));
    prefix_unref(c->rig.p, c->nodes[CHAIN - 1]);
}

static uint32_t windowed(const struct chain *c)
{
    uint32_t mask = 0;
    for (int i = 0; i < CHAIN; i++) mask |= (uint32_t)(prefix_window_block(c->nodes[i], 1) != KV_NO_BLOCK) << i;
    return mask;
}

/* While a chain grows, what falls behind is given up, unless it is kept for a hit. */
static void test_trim(void **state)
{
    struct chain *c = *state;
    prefix_window_keep(c->rig.p, c->nodes[1], PREFIX_KEEP);
    for (int i = 0; i < CHAIN; i++) {
        prefix_window_trim(c->rig.p, c->nodes[i]);
        prefix_check(c->rig.p);
    }
    assert_int_equal(windowed(c), 0xf3); /* 64 positions of the window and 64 more; 0 and 1 are kept */
    assert_int_equal(hit(c, 8 * KV_BLOCK), 8 * KV_BLOCK);
    assert_int_equal(hit(c, 7 * KV_BLOCK), 7 * KV_BLOCK);
    assert_int_equal(hit(c, 5 * KV_BLOCK), 2 * KV_BLOCK);
    assert_int_equal(hit(c, 2 * KV_BLOCK), 2 * KV_BLOCK);
}

/* At the end, more than a window's blocks nearest to each end of the chain are given up, but not those of a branch. */
static void test_thin(void **state)
{
    enum { LONG = 24, WINDOW_BLOCKS = (WINDOW + 2 * KV_BLOCK) / KV_BLOCK };
    struct fixture rig;
    struct kv_pool *pool;
    struct prefix_node *nodes[LONG], *branch;
    uint32_t block, left = 0;
    (void)state;
    fixture_init(&rig, 2 * LONG);
    assert_int_equal(kv_pool_new(&pool, 2 * LONG), 0);
    assert_int_equal(prefix_add_window(rig.p, pool, WINDOW), 0);
    for (int i = 0; i < LONG; i++) {
        assert_int_equal(fixture_add(&rig, i ? nodes[i - 1] : NULL, i, KV_BLOCK, 1, &nodes[i]), 0);
        assert_int_equal(kv_pool_take(pool, &block), 0);
        prefix_window_attach(rig.p, nodes[i], 1, block, KV_BLOCK);
        kv_pool_unref(pool, block);
        prefix_window_keep(rig.p, nodes[i], PREFIX_KEEP);
    }
    assert_int_equal(fixture_add(&rig, nodes[15], 99, KV_BLOCK, 1, &branch), 0);
    prefix_window_keep(rig.p, nodes[8], PREFIX_KEEP_ONCE);
    prefix_window_thin(rig.p, nodes[LONG - 1]);
    prefix_check(rig.p);
    for (int i = 0; i < LONG; i++) {
        bool has = prefix_window_block(nodes[i], 1) != KV_NO_BLOCK;
        bool end = i >= LONG - WINDOW_BLOCKS, by_branch = i <= 15 && i > 15 - WINDOW_BLOCKS;
        bool once = i <= 8 && i > 8 - WINDOW_BLOCKS, near = i >= 16 && i < LONG - WINDOW_BLOCKS;
        assert_true(has == (end || by_branch || once || near || i < WINDOW_BLOCKS));
    }
    prefix_window_thin(rig.p, nodes[LONG - 1]); /* now those count as well */
    prefix_check(rig.p);
    for (int i = 0; i < LONG; i++) left += prefix_window_block(nodes[i], 1) != KV_NO_BLOCK;
    assert_int_equal(left, 4 * WINDOW_BLOCKS);
    fixture_fini(&rig);
    kv_pool_free(pool);
}

struct left {
    uint32_t calls;
    bool write;
    struct prefix_info last;
};

static bool leave(void *ctx, const struct prefix_info *info)
{
    struct left *l = ctx;
    l->calls++;
    l->last = *info;
    assert_true(info->blocks[0] == info->block && info->block != KV_NO_BLOCK &&
                (info->blocks[1] != KV_NO_BLOCK || info->lacks == 2));
    return l->write;
}

/* Nodes are written with the blocks that they have, and again when they have more. */
static void test_disk(void **state)
{
    struct chain *c = *state;
    struct left l = {.write = true};
    struct prefix_info info;
    assert_int_equal(prefix_window_evict(c->rig.p, 1, 1, leave, &l), 1);
    assert_true(l.calls == 1 && prefix_id_equal(l.last.id, fixture_id(c->nodes[0])));
    assert_false(prefix_disk_begin_write(c->rig.p, false, 0, &info)); /* being written, and the parent of all others */
    prefix_disk_written(c->rig.p, l.last.id);
    prefix_check(c->rig.p);
    l.write = false;
    assert_int_equal(prefix_window_evict(c->rig.p, 1, 1, leave, &l), 1); /* of node 1, which is not written */
    assert_int_equal(l.calls, 2);
    assert_true(prefix_disk_begin_write(c->rig.p, false, 0, &info)); /* without the block */
    assert_true(prefix_id_equal(info.id, fixture_id(c->nodes[1])) && info.lacks == 2 && !info.on_disk);
    prefix_disk_written(c->rig.p, info.id);
    prefix_check(c->rig.p);
    prefix_info(c->nodes[1], &info);
    assert_true(info.on_disk && info.lacks == 2);
    prefix_info(c->nodes[0], &info);
    assert_true(info.on_disk && info.lacks == 0);
    uint32_t block;
    assert_int_equal(kv_pool_take(c->pool, &block), 0);
    prefix_window_attach(c->rig.p, c->nodes[1], 1, block, 31); /* too few tokens */
    assert_int_equal(prefix_window_block(c->nodes[1], 1), KV_NO_BLOCK);
    prefix_window_attach(c->rig.p, c->nodes[1], 1, block, 32);
    kv_pool_unref(c->pool, block);
    prefix_ref(c->rig.p, c->nodes[1]); /* somebody may be reading the file */
    while (prefix_disk_begin_write(c->rig.p, false, 0, &info)) {
        assert_false(prefix_id_equal(info.id, fixture_id(c->nodes[1])));
        prefix_disk_written(c->rig.p, info.id);
    }
    prefix_unref(c->rig.p, c->nodes[1]);
    assert_true(prefix_disk_begin_write(c->rig.p, false, 0, &info));
    assert_true(prefix_id_equal(info.id, fixture_id(c->nodes[1])) && info.blocks[1] == block && !info.lacks);
    struct prefix_info now;
    prefix_info(c->nodes[1], &now);
    assert_false(now.on_disk); /* the file is being replaced */
    prefix_disk_write_failed(c->rig.p, info.id);
    prefix_info(c->nodes[1], &now);
    assert_true(now.on_disk && now.lacks == 2);
    lose(c, 7);
    l.calls = 0;
    assert_int_equal(prefix_evict(c->rig.p, 2, leave, &l), 2);
    assert_int_equal(l.calls, 2);
    l.calls = 0;
    prefix_check(c->rig.p);
    assert_int_equal(kv_pool_free_blocks(c->pool), 2 * CHAIN - 5);
}

/* Each of many users gives its blocks, wherever the table of users has it. */
static void test_every_user(void **state)
{
    enum { USERS = 16, SEEDS = 32 };
    for (int seed = 0; seed < SEEDS; seed++) {
        struct fixture rig;
        struct kv_pool *pool;
        fixture_init(&rig, USERS);
        assert_int_equal(kv_pool_new(&pool, USERS), 0);
        assert_int_equal(prefix_add_window(rig.p, pool, WINDOW), 0);
        for (int i = 0; i < USERS; i++) {
            struct prefix_node *n;
            uint32_t block;
            assert_int_equal(fixture_add(&rig, NULL, 100 + i, KV_BLOCK, (uid_t)(1000 + i), &n), 0);
            assert_int_equal(kv_pool_take(pool, &block), 0);
            prefix_window_attach(rig.p, n, 1, block, KV_BLOCK);
            kv_pool_unref(pool, block);
        }
        assert_int_equal(prefix_window_evict(rig.p, 1, USERS, NULL, NULL), USERS);
        fixture_fini(&rig);
        kv_pool_free(pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_least_recent_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_users, setup, teardown),
        cmocka_unit_test_setup_teardown(test_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(test_trim, setup, teardown),
        cmocka_unit_test(test_thin),
        cmocka_unit_test(test_every_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

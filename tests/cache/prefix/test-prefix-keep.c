/* SPDX-License-Identifier: MIT */
/* Which blocks of groups with a window stay, block by block: chains of many lengths, two windows at once. */
#include "daemon/cache/prefix/prefix-node.h"
#include "tests/cache/prefix/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define LONG 400
#define NEAR 3 /* blocks in reach of a window of one: 32 positions and 64 more */

static struct {
    struct fixture rig;
    struct kv_pool *pools[2];
    struct prefix_node *nodes[LONG];
    uint32_t n;
} c;

static void add(enum prefix_keep keep)
{
    uint32_t block;
    struct prefix_node **n = &c.nodes[c.n];
    assert_int_equal(fixture_add(&c.rig, c.n ? c.nodes[c.n - 1] : NULL, (int32_t)c.n, KV_BLOCK, 1, n), 0);
    for (uint32_t g = 1; g <= 2; g++) {
        assert_int_equal(kv_pool_take(c.pools[g - 1], &block), 0);
        prefix_window_attach(c.rig.p, *n, g, block, KV_BLOCK);
        kv_pool_unref(c.pools[g - 1], block);
    }
    c.n++;
    if (keep) prefix_window_keep(c.rig.p, *n, keep);
    prefix_window_trim(c.rig.p, *n);
}

/* Groups 1 and 2 have windows of one block and of two. */
static void begin(uint32_t blocks, enum prefix_keep keep)
{
    fixture_init(&c.rig, LONG + 8);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(kv_pool_new(&c.pools[i], LONG + 8), 0);
        assert_int_equal(prefix_add_window(c.rig.p, c.pools[i], (i + 1) * KV_BLOCK), 0);
    }
    for (c.n = 0; c.n < blocks;) add(keep);
}

static void end(void)
{
    fixture_fini(&c.rig);
    for (int i = 0; i < 2; i++) kv_pool_free(c.pools[i]);
}

static bool has(uint32_t i, uint32_t group)
{
    return prefix_window_block(c.nodes[i], group) != KV_NO_BLOCK;
}

/* A chain that keeps nothing has at each moment the blocks of its reach. */
static void test_trim(void **state)
{
    begin(0, PREFIX_KEEP_NOT);
    for (uint32_t n = 1; n <= 12; n++) {
        add(PREFIX_KEEP_NOT);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t g = 1; g <= 2; g++) assert_int_equal(has(i, g), i + NEAR + g - 1 >= n);
    }
    end();
}

/* After the end of a chain of @n blocks that all were kept: those in reach of the end, and the larger of a window and a
 * 32nd of the chain at both ends of the rest. */
static void check_thin(uint32_t n)
{
    begin(n, PREFIX_KEEP);
    prefix_window_thin(c.rig.p, c.nodes[n - 1]);
    prefix_check(c.rig.p);
    for (uint32_t g = 1; g <= 2; g++) {
        const uint32_t reach = NEAR + g - 1, most = n / 32 > reach ? n / 32 : reach;
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t back = n - 1 - i; /* from the end */
            assert_int_equal(has(i, g), back < reach + most || i < most);
        }
    }
    end();
}

static void test_thin(void **state)
{
    static const uint32_t lengths[] = {1, 2, 3, 8, 9, 10, 11, 12, 13, 60, 95, 96, 127, 128, 129, 160, 300, 400};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) check_thin(lengths[i]);
}

/* A mark that is about to be used outlives a weaker one, and one call of thin. */
static void test_once(void **state)
{
    begin(40, PREFIX_KEEP);
    prefix_window_keep(c.rig.p, c.nodes[20], PREFIX_KEEP_ONCE);
    prefix_window_keep(c.rig.p, c.nodes[20], PREFIX_KEEP);
    prefix_window_thin(c.rig.p, c.nodes[39]);
    assert_true(has(20, 1) && has(19, 1) && has(18, 1) && !has(17, 1) && !has(21, 1));
    prefix_window_thin(c.rig.p, c.nodes[39]);
    assert_true(!has(20, 1) && !has(19, 1) && !has(18, 1));
    end();
}

/* Thinning marks nothing: what was not kept falls behind as the chain grows. */
static void test_thin_keeps_no_marks(void **state)
{
    begin(4, PREFIX_KEEP_NOT);
    prefix_window_thin(c.rig.p, c.nodes[3]);
    for (uint32_t i = 0; i < 8; i++) add(PREFIX_KEEP_NOT);
    for (uint32_t i = 0; i < c.n; i++) assert_int_equal(has(i, 1), i + NEAR >= c.n);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trim),
        cmocka_unit_test(test_thin),
        cmocka_unit_test(test_once),
        cmocka_unit_test(test_thin_keeps_no_marks),
    };
    return cmocka_run_group_tests_name("prefix-keep", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* The order of eviction from memory and from disk. */
#include "libcommon/error.h"
#include "tests/cache/prefix/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ASSERT_ID(a, b) assert_true(prefix_id_equal(a, b))

static const struct prefix_id none;

static void test_oldest_leaf_first(void **state)
{
    struct fixture r;
    fixture_init(&r, 8);
    struct prefix_node *a, *a1, *b, *c;
    assert_int_equal(fixture_add(&r, NULL, 1, 32, 10, &a), 0);
    assert_int_equal(fixture_add(&r, NULL, 2, 32, 10, &b), 0);
    assert_int_equal(fixture_add(&r, a, 1, 32, 10, &a1), 0);
    assert_int_equal(fixture_add(&r, NULL, 3, 32, 10, &c), 0);
    const struct prefix_id id_a = fixture_id(a), id_a1 = fixture_id(a1), id_b = fixture_id(b), id_c = fixture_id(c);
    prefix_touch(r.p, b);
    prefix_ref(r.p, c);
    assert_int_equal(prefix_evictable(r.p), 3);
    ASSERT_ID(fixture_evict(&r, false), id_a1);
    ASSERT_ID(fixture_evict(&r, false), id_a);
    ASSERT_ID(fixture_evict(&r, false), id_b);
    ASSERT_ID(fixture_evict(&r, false), none);
    prefix_unref(r.p, c);
    ASSERT_ID(fixture_evict(&r, false), id_c);
    fixture_fini(&r);
}

/* The uid with most blocks is first; its tails come before the leaves of other uids. */
static void test_each_uid_for_itself(void **state)
{
    struct fixture r;
    fixture_init(&r, 8);
    struct prefix_node *n;
    struct prefix_id big[3];
    struct prefix_stats stats;
    assert_int_equal(fixture_add(&r, NULL, 9, 32, 20, &n), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fixture_add(&r, NULL, i, 32, 10, &n), 0);
        big[i] = fixture_id(n);
    }
    prefix_mark_tail(r.p, big[0], true);
    prefix_mark_tail(r.p, big[1], true);
    prefix_mark_tail(r.p, big[1], true);
    prefix_mark_tail(r.p, big[1], false); /* marks are counted */
    ASSERT_ID(fixture_evict(&r, false), big[2]);
    ASSERT_ID(fixture_evict(&r, false), big[0]);
    prefix_mark_tail(r.p, big[0], true); /* an evicted node: nothing happens */
    prefix_stats_get(r.p, 10, &stats);
    assert_true(stats.blocks_memory == 1 && stats.evictions == 2);
    assert_int_equal(prefix_evict(r.p, 9, NULL, NULL), 2);
    prefix_stats_get(r.p, 20, &stats);
    assert_true(stats.blocks_memory == 0 && stats.evictions == 1);
    prefix_stats_get(r.p, (uid_t)-1, &stats);
    assert_true(stats.nodes == 0 && stats.evictions == 4);
    fixture_fini(&r);
}

static void test_written_as_it_leaves(void **state)
{
    struct fixture r;
    fixture_init(&r, 2);
    struct prefix_node *a, *again;
    struct prefix_stats stats;
    int32_t tokens[32];
    fixture_fill(tokens, 32, 1);
    assert_int_equal(fixture_add(&r, NULL, 1, 32, 10, &a), 0);
    const struct prefix_id id = fixture_id(a);
    ASSERT_ID(fixture_evict(&r, true), id);
    prefix_stats_get(r.p, 10, &stats);
    assert_true(stats.nodes == 1 && stats.blocks_memory == 0 && stats.blocks_disk == 0);
    assert_int_equal(fixture_find(&r, tokens, 32).n_disk, 0); /* not written yet */
    prefix_disk_written(r.p, id);
    assert_int_equal(fixture_find(&r, tokens, 32).n_disk, 32);
    assert_int_equal(fixture_add(&r, NULL, 1, 32, 11, &again), 0); /* read back */
    ASSERT_ID(fixture_id(again), id);
    prefix_stats_get(r.p, 10, &stats); /* the first uid is still charged */
    assert_true(stats.blocks_memory == 1 && stats.blocks_disk == 1);
    prefix_disk_removed(r.p, id);
    ASSERT_ID(fixture_evict(&r, true), id);
    prefix_disk_write_failed(r.p, id);
    prefix_stats_get(r.p, 10, &stats);
    assert_int_equal(stats.nodes, 0);
    fixture_fini(&r);
}

static void test_written_from_the_root_on(void **state)
{
    struct fixture r;
    fixture_init(&r, 4);
    struct prefix_node *a, *b, *c;
    struct prefix_info info;
    assert_int_equal(fixture_add(&r, NULL, 1, 32, 10, &a), 0);
    assert_int_equal(fixture_add(&r, a, 2, 32, 10, &b), 0);
    assert_int_equal(fixture_add(&r, NULL, 3, 9, 10, &c), 0);
    assert_false(prefix_disk_begin_write(r.p, false, 3, &info)); /* the first addition is 2 uses ago */
    assert_true(prefix_disk_begin_write(r.p, false, 2, &info));
    ASSERT_ID(info.id, fixture_id(a));
    assert_int_equal(info.block, prefix_block(a));
    assert_true(prefix_disk_begin_write(r.p, true, 0, &info));
    ASSERT_ID(info.id, fixture_id(c));
    assert_false(prefix_disk_begin_write(r.p, true, 0, &info)); /* b is written after its parent a */
    prefix_disk_written(r.p, fixture_id(a));
    assert_true(prefix_disk_begin_write(r.p, false, 0, &info));
    ASSERT_ID(info.id, fixture_id(b));
    ASSERT_ID(info.parent, fixture_id(a));
    prefix_disk_write_failed(r.p, info.id);
    prefix_disk_removed(r.p, fixture_id(a));
    prefix_disk_write_failed(r.p, fixture_id(c));
    assert_true(prefix_disk_begin_write(r.p, true, 0, &info));
    ASSERT_ID(info.id, fixture_id(c));
    fixture_fini(&r);
}

/* Files that no process wrote, and what is told of nodes that have left meanwhile or that have no file. */
static void test_unknown_ids(void **state)
{
    struct fixture r;
    struct prefix_node *a;
    struct prefix_stats before, after;
    fixture_init(&r, 4);
    assert_int_equal(fixture_add(&r, NULL, 1, 32, 10, &a), 0);
    prefix_stats_get(r.p, (uid_t)-1, &before);
    const struct prefix_id mine = fixture_id(a);
    const struct prefix_id unknown[] = {{mine.high, mine.low + 1}, {mine.high + 1, mine.low}, {0, 0}};
    struct prefix_info info = {.namespace = r.namespace, .uid = 10, .n = 5};
    assert_int_equal(prefix_disk_add(r.p, &info), -EBADMSG);
    info.id = unknown[0]; /* an id that this process may give later */
    assert_int_equal(prefix_disk_add(r.p, &info), -EEXIST);
    for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++) {
        prefix_disk_written(r.p, unknown[i]);
        prefix_disk_write_failed(r.p, unknown[i]);
        prefix_disk_removed(r.p, unknown[i]);
    }
    prefix_disk_removed(r.p, mine);
    prefix_check(r.p);
    prefix_stats_get(r.p, (uid_t)-1, &after);
    assert_memory_equal(&before, &after, sizeof(after));
    fixture_fini(&r);
}

/* Files of an earlier process, the child before its parent. */
static void test_adopted_chain(void **state)
{
    struct fixture r;
    fixture_init(&r, 4);
    struct prefix_info first = {.id = {1, 1}, .namespace = r.namespace, .uid = 10, .n = 32};
    struct prefix_info second = {.id = {1, 2}, .parent = {1, 1}, .namespace = r.namespace, .uid = 10, .n = 32};
    struct prefix_info third = {.id = {1, 3}, .parent = {1, 2}, .namespace = r.namespace, .uid = 10, .n = 10}, info;
    int32_t tokens[96] = {0};
    uint32_t common;
    assert_int_equal(prefix_disk_add(r.p, &second), 1);
    assert_int_equal(prefix_disk_add(r.p, &first), 0);
    assert_int_equal(prefix_disk_add(r.p, &first), -EEXIST);
    assert_int_equal(prefix_disk_add(r.p, &second), 0);
    assert_int_equal(prefix_disk_add(r.p, &third), 0);
    info = third;
    info.id.low = 4;
    assert_int_equal(prefix_disk_add(r.p, &info), -EEXIST);
    info.parent = third.id;
    assert_int_equal(prefix_disk_add(r.p, &info), -EBADMSG);
    info.parent = first.id;
    info.namespace.bytes[0]++;
    assert_int_equal(prefix_disk_add(r.p, &info), -EBADMSG);
    prefix_check(r.p);

    struct prefix_match m = fixture_find(&r, tokens, 96);
    assert_true(!m.node && m.n == 0 && !m.partial && m.n_disk == 74 && m.miss == PREFIX_NEW);
    m = fixture_find(&r, tokens, 33);
    assert_true(m.n_disk == 33 && m.miss == PREFIX_ALL);
    struct prefix_node *at = NULL, *child;
    for (uint32_t i = 0; i < 74; i += common) {
        child = prefix_child(r.p, &r.namespace, at, items_tokens(tokens + i, 96 - i), &common);
        assert_non_null(child);
        assert_ptr_equal(prefix_parent(child), at);
        at = child;
    }
    prefix_ref(r.p, at); /* a reference keeps the files */
    assert_false(prefix_disk_victim(r.p, &info));
    prefix_disk_removed(r.p, third.id);
    assert_false(prefix_disk_victim(r.p, &info));
    prefix_check(r.p);
    prefix_unref(r.p, at);
    assert_true(prefix_disk_victim(r.p, &info));
    ASSERT_ID(info.id, second.id);
    prefix_disk_removed(r.p, first.id); /* the node stays because of its child */
    m = fixture_find(&r, tokens, 96);
    assert_true(m.n_disk == 0 && m.miss == PREFIX_EVICTED);
    assert_int_equal(fixture_add(&r, NULL, 0, 32, 10, &at), 0);
    ASSERT_ID(fixture_id(at), first.id);
    m = fixture_find(&r, tokens, 96);
    assert_true(m.node == at && m.n_disk == 32);
    fixture_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oldest_leaf_first),    cmocka_unit_test(test_each_uid_for_itself),
        cmocka_unit_test(test_written_as_it_leaves), cmocka_unit_test(test_written_from_the_root_on),
        cmocka_unit_test(test_unknown_ids),          cmocka_unit_test(test_adopted_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "libcommon/error.h"
#include "tests/cache/prefix/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_empty(void **state)
{
    struct fixture r;
    fixture_init(&r, 4);
    int32_t tokens[70] = {0};
    uint32_t common = 5;
    struct prefix_match m = fixture_find(&r, tokens, 70);
    assert_true(!m.node && !m.partial && m.n == 0 && m.n_partial == 0 && m.n_disk == 0 && m.miss == PREFIX_NEW);
    m = fixture_find(&r, tokens, 0);
    assert_int_equal(m.miss, PREFIX_ALL);
    assert_null(prefix_child(r.p, &r.namespace, NULL, items_tokens(tokens, 70), &common));
    assert_int_equal(common, 0);
    assert_int_equal(prefix_evict(r.p, 3, NULL, NULL), 0);
    assert_int_equal(prefix_evictable(r.p), 0);
    fixture_fini(&r);
    assert_null(prefix_free(NULL));
}

static void test_longest_beginning(void **state)
{
    struct fixture r;
    fixture_init(&r, 8);
    int32_t tokens[80];
    struct prefix_node *a, *b, *part;
    fixture_fill(tokens, 32, 1);
    fixture_fill(tokens + 32, 48, 2);
    assert_int_equal(fixture_add(&r, NULL, 1, 32, 10, &a), 0);
    assert_int_equal(fixture_add(&r, a, 2, 32, 10, &b), 0);
    assert_int_equal(fixture_add(&r, b, 2, 9, 10, &part), 0);

    struct prefix_match m = fixture_find(&r, tokens, 80);
    assert_true(m.node == b && m.n == 64 && m.partial == part && m.n_partial == 9 && m.miss == PREFIX_NEW);
    m = fixture_find(&r, tokens, 73);
    assert_true(m.n + m.n_partial == 73 && m.miss == PREFIX_ALL);
    /* A full block also gives a partial match, when the last token is evaluated again or differs. */
    m = fixture_find(&r, tokens, 63);
    assert_true(m.node == a && m.n == 32 && m.partial == b && m.n_partial == 31 && m.miss == PREFIX_ALL);
    tokens[40] = 3;
    m = fixture_find(&r, tokens, 80);
    assert_true(m.node == a && m.partial == b && m.n_partial == 8 && m.miss == PREFIX_NEW);
    assert_true(prefix_parent(b) == a && prefix_parent(a) == NULL);

    const struct prefix_namespace other = {{1, 2, 4}};
    prefix_find(r.p, &other, items_tokens(tokens, 80), &m);
    assert_true(!m.node && !m.partial && m.n_disk == 0);
    fixture_fini(&r);
}

static void test_equal_one_is_shared(void **state)
{
    struct fixture r;
    fixture_init(&r, 4);
    struct prefix_node *a, *again, *longer, *shorter;
    struct prefix_stats stats;
    assert_int_equal(fixture_add(&r, NULL, 1, 20, 10, &a), 0);
    assert_int_equal(fixture_add(&r, NULL, 1, 20, 11, &again), 1);
    assert_ptr_equal(a, again);
    assert_int_equal(fixture_add(&r, NULL, 1, 7, 11, &shorter), 1);
    assert_ptr_equal(a, shorter);
    assert_int_equal(fixture_add(&r, NULL, 1, 21, 11, &longer), 0); /* drops the covered node of 20 tokens */
    prefix_stats_get(r.p, 10, &stats);
    assert_int_equal(stats.nodes, 0);
    prefix_stats_get(r.p, 11, &stats);
    assert_true(stats.nodes == 1 && stats.blocks_memory == 1 && stats.evictions == 0);
    assert_int_equal(kv_pool_free_blocks(r.pool), 3);
    fixture_fini(&r);
}

/* A covered node with a reference stays until the reference is removed. */
static void test_held_beginning_stays(void **state)
{
    struct fixture r;
    fixture_init(&r, 4);
    struct prefix_node *a, *b;
    struct prefix_stats stats;
    assert_int_equal(fixture_add(&r, NULL, 1, 5, 10, &a), 0);
    prefix_ref(r.p, a);
    assert_int_equal(fixture_add(&r, NULL, 1, 32, 10, &b), 0);
    prefix_check(r.p);
    prefix_stats_get(r.p, 10, &stats);
    assert_int_equal(stats.nodes, 2);
    prefix_mark_tail(r.p, fixture_id(a), true);
    prefix_unref(r.p, a);
    prefix_check(r.p);
    prefix_stats_get(r.p, 10, &stats);
    assert_int_equal(stats.nodes, 2);
    prefix_mark_tail(r.p, fixture_id(a), false);
    prefix_stats_get(r.p, 10, &stats);
    assert_int_equal(stats.nodes, 1);
    fixture_fini(&r);
}

/* A covered node is found although another node is ordered between it and the longer one. */
static void test_beginning_behind_another(void **state)
{
    struct fixture r;
    fixture_init(&r, 4);
    struct prefix_info file = {.id = {1, 1}, .namespace = r.namespace, .uid = 10, .n = 3, .tokens = {1, 1, 0}};
    const int32_t longer[] = {1, 1, 2, 2};
    struct prefix_node *a, *b;
    struct prefix_stats stats;
    assert_int_equal(prefix_disk_add(r.p, &file), 0);
    assert_int_equal(fixture_add(&r, NULL, 1, 2, 10, &a), 0);
    assert_int_equal(fixture_add_tokens(&r, NULL, longer, 4, 10, &b), 0);
    prefix_check(r.p);
    prefix_stats_get(r.p, 10, &stats);
    assert_true(stats.nodes == 2 && stats.blocks_memory == 1 && stats.blocks_disk == 1);
    fixture_fini(&r);
}

static void test_why_it_missed(void **state)
{
    struct fixture r;
    fixture_init(&r, 8);
    int32_t tokens[64];
    fixture_fill(tokens, 64, 1);
    struct prefix_node *a, *b;
    assert_int_equal(fixture_add(&r, NULL, 1, 32, 10, &a), 0);
    assert_int_equal(fixture_add(&r, a, 1, 32, 10, &b), 0);
    assert_int_equal(fixture_find(&r, tokens, 64).miss, PREFIX_ALL);
    const struct prefix_id id = fixture_id(b);
    assert_true(prefix_id_equal(fixture_evict(&r, true), id));
    prefix_disk_written(r.p, id);
    assert_int_equal(fixture_find(&r, tokens, 64).miss, PREFIX_ALL);
    assert_int_equal(fixture_find(&r, tokens, 64).n_disk, 32);
    prefix_disk_removed(r.p, id);
    assert_int_equal(fixture_find(&r, tokens, 64).miss, PREFIX_EVICTED);
    assert_int_equal(fixture_find(&r, tokens, 32).miss, PREFIX_ALL);
    const struct prefix_id first = fixture_id(a);
    assert_true(prefix_id_equal(fixture_evict(&r, false), first));
    assert_int_equal(fixture_find(&r, tokens, 64).miss, PREFIX_EVICTED);
    tokens[0] = 2;
    assert_int_equal(fixture_find(&r, tokens, 64).miss, PREFIX_NEW);

    struct prefix_info file = {.id = {1, 1}, .namespace = r.namespace, .uid = 10, .n = 32, .tokens = {2}};
    for (int i = 1; i < 32; i++) file.tokens[i] = 1;
    assert_int_equal(prefix_disk_add(r.p, &file), 0);
    assert_int_equal(fixture_find(&r, tokens, 32).miss, PREFIX_ALL);
    prefix_disk_removed(r.p, file.id);
    assert_int_equal(fixture_find(&r, tokens, 32).miss, PREFIX_EVICTED);
    fixture_fini(&r);
}

/* Two processes never use the same id, and one process never uses an id twice. */
static void test_ids(void **state)
{
    struct fixture r[2];
    struct prefix_id id[2][2];
    for (int i = 0; i < 2; i++) {
        struct prefix_node *n;
        fixture_init(&r[i], 1);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(fixture_add(&r[i], NULL, 1, 32, 10, &n), 0);
            id[i][k] = fixture_id(n);
            assert_true(id[i][k].low != 0 && prefix_id_equal(fixture_evict(&r[i], false), id[i][k]));
        }
        assert_int_equal(id[i][0].high, id[i][1].high);
        assert_int_not_equal(id[i][0].low, id[i][1].low);
        fixture_fini(&r[i]);
    }
    assert_int_not_equal(id[0][0].high, id[1][0].high);
}

/* No function recurses, and the ref and unref of a decode step do not walk the chain. */
static void test_chain_of_100000(void **state)
{
    enum { N = 100000 };
    struct fixture r;
    fixture_init(&r, N);
    struct prefix_node *at = NULL, *next;
    int32_t *tokens = calloc(N, KV_BLOCK * sizeof(*tokens));
    assert_non_null(tokens);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(fixture_add(&r, at, 0, 32, 10, &next), 0);
        prefix_ref(r.p, next);
        if (at) prefix_unref(r.p, at);
        at = next;
    }
    assert_int_equal(prefix_evictable(r.p), 0);
    struct prefix_match m = fixture_find(&r, tokens, N * KV_BLOCK);
    assert_true(m.node == at && m.n == N * KV_BLOCK && m.miss == PREFIX_ALL);
    prefix_touch(r.p, at);
    assert_int_equal(prefix_evict(r.p, N, NULL, NULL), 0);
    prefix_unref(r.p, at);
    prefix_check(r.p);
    assert_int_equal(prefix_evictable(r.p), N);
    assert_int_equal(prefix_evict(r.p, N / 2, NULL, NULL), N / 2);
    assert_int_equal(fixture_find(&r, tokens, N * KV_BLOCK).n, N / 2 * KV_BLOCK);
    free(tokens);
    fixture_fini(&r);
}

/* Thousands of children that differ only in their last token. */
static void test_wide_root(void **state)
{
    enum { N = 5000 };
    struct fixture r;
    fixture_init(&r, N);
    int32_t tokens[KV_BLOCK] = {0};
    for (int i = 0; i < N; i++) {
        struct prefix_node *n;
        tokens[31] = i * 7919 % N; /* each number once */
        assert_int_equal(fixture_add_tokens(&r, NULL, tokens, 32, 10, &n), 0);
    }
    prefix_check(r.p);
    for (int i = 0; i < N; i++) {
        tokens[31] = i;
        assert_int_equal(fixture_find(&r, tokens, 32).n, 32);
        assert_int_equal(fixture_find(&r, tokens, 31).n_partial, 31);
    }
    tokens[31] = N;
    assert_int_equal(fixture_find(&r, tokens, 32).n_partial, 31);
    fixture_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_longest_beginning),
        cmocka_unit_test(test_equal_one_is_shared),
        cmocka_unit_test(test_held_beginning_stays),
        cmocka_unit_test(test_beginning_behind_another),
        cmocka_unit_test(test_why_it_missed),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_chain_of_100000),
        cmocka_unit_test(test_wide_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

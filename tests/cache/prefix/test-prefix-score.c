/* SPDX-License-Identifier: MIT */
/* The order of eviction of an owner's leaves after scores are learned. test-prefix-random covers the order together
 * with all other operations of the index. */
#include "daemon/cache/prefix/prefix-node.h"
#include "libcommon/error.h"
#include "tests/cache/prefix/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

/* A request for one block. True: a hit. */
static bool ask(struct fixture *r, int32_t token, uid_t uid)
{
    int32_t tokens[KV_BLOCK];
    struct prefix_node *n;
    fixture_fill(tokens, KV_BLOCK, token);
    const struct prefix_match m = fixture_find(r, tokens, KV_BLOCK);
    if (m.node) {
        prefix_use(r->p, m.node);
        return true;
    }
    if (kv_pool_free_blocks(r->pool) == 0) assert_int_equal(prefix_evict(r->p, 1, NULL, NULL), 1);
    assert_int_equal(fixture_add(r, NULL, token, KV_BLOCK, uid, &n), 0);
    return false;
}

/* Eight blocks in turn, with other requests between: each is used again after 96 requests, and 64 blocks fit. */
static uint32_t hits_of_eight(uint32_t learn_from)
{
    struct fixture r;
    uint32_t hits = 0;
    fixture_init(&r, 64);
    r.p->learn_from = learn_from;
    for (int32_t i = 0; i < 24000; i++) {
        const bool one_of_them = i % 12 == 0;
        const bool hit = ask(&r, one_of_them ? 1 + i / 12 % 8 : 1000 + i, 10);
        assert_true(one_of_them || !hit);
        if (i >= 12000) hits += hit;
        if (i % 1000 == 0) prefix_check(r.p);
    }
    fixture_fini(&r);
    return hits;
}

static void test_reused_blocks_stay(void **state)
{
    assert_int_equal(hits_of_eight(UINT32_MAX), 0);
    assert_true(hits_of_eight(16) > 900); /* of 1000 */
}

static uint32_t n_victims;
static int32_t victims[8192];

static bool note_victim(void *ctx, const struct prefix_info *info)
{
    assert_int_equal(info->uid, 10);
    victims[n_victims++] = info->tokens[0];
    return false;
}

static uint64_t hash(const void *bytes, size_t len, uint64_t s)
{
    return XXH3_64bits_withSeed(bytes, len, s);
}

/* The evictions of uid 10, while uid 20 uses its few blocks @often. */
static void run_beside(uint32_t often)
{
    struct fixture r;
    struct prefix_node *n, *others[20];
    n_victims = 0;
    fixture_init(&r, 64);
    r.p = prefix_free(r.p);
    assert_int_equal(prefix_new(&r.p, r.pool, hash), 0); /* the same seed, so that the same evictions are remembered */
    r.p->learn_from = 16;
    for (int32_t i = 0; i < 20; i++) assert_int_equal(fixture_add(&r, NULL, -1 - i, 32, 20, &others[i]), 0);
    for (int32_t i = 0; i < 6000; i++) {
        int32_t tokens[KV_BLOCK], token = i % 5 ? 1000 + i : i / 5 % 16;
        fixture_fill(tokens, KV_BLOCK, token);
        const struct prefix_match m = fixture_find(&r, tokens, KV_BLOCK);
        for (uint32_t k = 0; k < often; k++) prefix_use(r.p, others[(uint32_t)i * k % 20]);
        if (m.node) {
            prefix_use(r.p, m.node);
            continue;
        }
        if (kv_pool_free_blocks(r.pool) == 0) assert_int_equal(prefix_evict(r.p, 1, note_victim, NULL), 1);
        assert_int_equal(fixture_add(&r, NULL, token, KV_BLOCK, 10, &n), 0);
    }
    fixture_fini(&r);
}

static void test_scores_are_per_uid(void **state)
{
    static int32_t alone[8192];
    run_beside(0);
    const uint32_t n = n_victims;
    assert_true(n > 4000);
    memcpy(alone, victims, sizeof(alone));
    run_beside(3);
    assert_int_equal(n_victims, n);
    assert_memory_equal(victims, alone, n * sizeof(*alone));
}

/* An owner has scores only as long as it has blocks. */
static void test_few_blocks_cost_nothing(void **state)
{
    struct fixture r;
    fixture_init(&r, 64);
    r.p->learn_from = 40;
    for (int32_t i = 0; i < 39; i++) ask(&r, i, 10);
    assert_null(prefix_owner_find(r.p, 10)->score);
    for (int32_t i = 39; i < 42; i++) ask(&r, i, 10);
    assert_non_null(prefix_owner_find(r.p, 10)->score);
    assert_int_equal(prefix_evict(r.p, 32, NULL, NULL), 32);
    assert_non_null(prefix_owner_find(r.p, 10)->score); /* 10 are left, a quarter of 40 */
    assert_int_equal(prefix_evict(r.p, 1, NULL, NULL), 1);
    assert_null(prefix_owner_find(r.p, 10)->score);
    fixture_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reused_blocks_stay),
        cmocka_unit_test(test_scores_are_per_uid),
        cmocka_unit_test(test_few_blocks_cost_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

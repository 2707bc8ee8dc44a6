/* SPDX-License-Identifier: MIT */
/* Runs of embeddings in the prefix index: prompts share exactly the items before their first difference. */
#include "tests/cache/prefix/coded.h"
#include "tests/cache/prefix/fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define LENGTH 100

static uint64_t hash_one(const void *bytes, size_t len, uint64_t s)
{
    return 42;
}

static void begin(struct fixture *f, prefix_hash_fn hash)
{
    *f = (struct fixture){.namespace = {{1, 2, 3}}};
    assert_int_equal(kv_pool_new(&f->pool, 64), 0);
    assert_int_equal(prefix_new(&f->p, f->pool, hash), 0);
}

/* 10 tokens, an image over three blocks, 5 tokens, an image inside a block, tokens. */
static void prompt(int32_t codes[LENGTH])
{
    for (uint32_t i = 0; i < LENGTH; i++) codes[i] = 7;
    for (uint32_t i = 10; i < 75; i++) codes[i] = code_of(0, i - 10);
    for (uint32_t i = 80; i < 90; i++) codes[i] = code_of(1, i - 80);
}

/* Indexes the codes, block by block. */
static void add(struct fixture *f, const int32_t *codes, uint32_t n)
{
    struct prefix_node *at = NULL, *next;
    struct coded c;
    const struct items all = coded_items(&c, codes, n);
    for (uint32_t i = 0; i < n; i += KV_BLOCK, at = next) {
        uint32_t block;
        struct items items = items_from(all, i);
        if (items.n > KV_BLOCK) items.n = KV_BLOCK;
        assert_int_equal(kv_pool_take(f->pool, &block), 0);
        assert_true(prefix_add(f->p, &f->namespace, at, items, block, 10, &next) >= 0);
        kv_pool_unref(f->pool, block);
        prefix_ref(f->p, next);
        if (at) prefix_unref(f->p, at);
    }
    prefix_unref(f->p, at);
    prefix_check(f->p);
}

static struct prefix_match find(const struct fixture *f, const int32_t *codes, uint32_t n)
{
    struct prefix_match m;
    struct coded c;
    prefix_find(f->p, &f->namespace, coded_items(&c, codes, n), &m);
    return m;
}

static uint32_t found(const struct fixture *f, const int32_t *codes, uint32_t n)
{
    const struct prefix_match m = find(f, codes, n);
    return m.n + m.n_partial;
}

static void shares_up_to_the_difference(prefix_hash_fn hash)
{
    struct fixture f;
    int32_t first[LENGTH], other[LENGTH];
    begin(&f, hash);
    prompt(first);
    add(&f, first, LENGTH);
    for (uint32_t n = 0; n <= LENGTH; n++) assert_int_equal(found(&f, first, n), n); /* also inside the runs */
    for (uint32_t at = 0; at < LENGTH; at++) {
        static const int32_t runs[] = {-1, 0, 1, 2, 3}; /* a token, other digests, another kind */
        for (size_t k = 0; k < 5; k++) {
            memcpy(other, first, sizeof(other));
            for (uint32_t i = at; i < LENGTH; i++) other[i] = runs[k] < 0 ? 9 : code_of(runs[k], i - at);
            if (other[at] == first[at]) continue;
            assert_int_equal(found(&f, other, LENGTH), at);
            add(&f, other, LENGTH);
            assert_int_equal(found(&f, other, LENGTH), LENGTH);
            assert_int_equal(found(&f, first, LENGTH), LENGTH);
            prefix_evict(f.p, 2, NULL, NULL);
            add(&f, first, LENGTH);
        }
        while (kv_pool_free_blocks(f.pool) < 40 && prefix_evict(f.p, 1, NULL, NULL)) continue;
        add(&f, first, LENGTH);
    }
    fixture_fini(&f);
}

static void test_shares_up_to_the_difference(void **state)
{
    shares_up_to_the_difference(NULL);
}

static void test_the_hash_only_finds(void **state)
{
    shares_up_to_the_difference(hash_one);
}

/* The run of one digest at another place: its items are others, though the digest is not. */
static void test_offset(void **state)
{
    struct fixture f;
    int32_t codes[LENGTH], moved[LENGTH];
    begin(&f, hash_one);
    for (uint32_t i = 0; i < LENGTH; i++) {
        codes[i] = code_of(0, i);
        moved[i] = code_of(0, i + 1);
    }
    add(&f, codes, LENGTH);
    assert_int_equal(found(&f, moved, LENGTH), 0);
    memcpy(moved, codes, 40 * sizeof(*codes));
    for (uint32_t i = 40; i < LENGTH; i++) moved[i] = code_of(0, i - 40); /* the image again, from its beginning */
    assert_int_equal(found(&f, moved, LENGTH), 40);
    add(&f, moved, LENGTH);
    assert_int_equal(found(&f, moved, LENGTH), LENGTH);
    fixture_fini(&f);
}

/* A covered block, and a block that is remembered when it is evicted, are those of equal runs only. */
static void test_covered_and_evicted(void **state)
{
    struct fixture f;
    struct prefix_stats stats;
    int32_t codes[3][KV_BLOCK];
    begin(&f, NULL);
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t i = 0; i < KV_BLOCK; i++) codes[k][i] = code_of(k == 2 ? 3 : (int32_t)k, i);
    add(&f, codes[0], 20);
    add(&f, codes[1], 30);
    add(&f, codes[2], 30);
    prefix_stats_get(f.p, 10, &stats);
    assert_int_equal(stats.blocks_memory, 3);
    add(&f, codes[0], 25);
    prefix_stats_get(f.p, 10, &stats);
    assert_int_equal(stats.blocks_memory, 3); /* the shorter one is dropped */
    add(&f, codes[0], KV_BLOCK);
    while (prefix_evict(f.p, 1, NULL, NULL)) continue;
    assert_int_equal(find(&f, codes[0], KV_BLOCK).miss, PREFIX_EVICTED);
    assert_int_equal(find(&f, codes[1], KV_BLOCK).miss, PREFIX_NEW);
    assert_int_equal(find(&f, codes[2], KV_BLOCK).miss, PREFIX_NEW);
    fixture_fini(&f);
}

/* A file's runs are checked and copied. */
static void test_disk_add(void **state)
{
    struct fixture f;
    int32_t codes[KV_BLOCK];
    struct coded c;
    begin(&f, NULL);
    for (uint32_t i = 0; i < KV_BLOCK; i++) codes[i] = i < 4 ? code_of(0, 90 + i) : i < 20 ? code_of(1, i - 4) : 7;
    const struct items t = coded_items(&c, codes, KV_BLOCK);
    struct prefix_info info = {.id = {1, 1},
                               .namespace = f.namespace,
                               .uid = 10,
                               .n = KV_BLOCK,
                               .runs = t.runs,
                               .n_runs = t.n_runs},
                       got;
    memcpy(info.tokens, t.ids, sizeof(info.tokens));
    info.n_runs = 1;
    assert_int_equal(prefix_disk_add(f.p, &info), -EBADMSG);
    info.n_runs = 0;
    assert_int_equal(prefix_disk_add(f.p, &info), -EBADMSG);
    info.n_runs = 2;
    c.runs[1].offset = 1;
    assert_int_equal(prefix_disk_add(f.p, &info), -EBADMSG);
    c.runs[1].offset = 0;
    c.runs[1].kind = 77;
    assert_int_equal(prefix_disk_add(f.p, &info), -EBADMSG);
    c.runs[1].kind = ITEM_IMAGE;
    assert_int_equal(prefix_disk_add(f.p, &info), 0);
    info.id.low = 2;
    assert_int_equal(prefix_disk_add(f.p, &info), -EEXIST);
    memset(&c, 0, sizeof(c)); /* the index has its own copy */
    uint32_t common;
    struct prefix_node *x = prefix_child(f.p, &f.namespace, NULL, coded_items(&c, codes, 12), &common);
    assert_int_equal(common, 12);
    prefix_info(x, &got);
    int32_t own[KV_BLOCK];
    const struct items has = {.ids = got.tokens, .n = got.n, .runs = got.runs, .n_runs = got.n_runs};
    coded_from(&has, own);
    assert_memory_equal(own, codes, sizeof(own));
    prefix_disk_removed(f.p, (struct prefix_id){1, 1});
    fixture_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_up_to_the_difference),
        cmocka_unit_test(test_the_hash_only_finds),
        cmocka_unit_test(test_offset),
        cmocka_unit_test(test_covered_and_evicted),
        cmocka_unit_test(test_disk_add),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* What the index promises beside its results: tables of the right size, seeds that nobody knows, uses that an evicted
 * block gets back, and exact numbers. */
#include "daemon/cache/prefix/prefix-node.h"
#include "tests/cache/prefix/fixture.h"
#include "tests/support/calls.h"
#include "tests/support/memory.h"
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <cmocka.h>

static unsigned hashes;

static uint64_t hash_counted(const void *bytes, size_t len, uint64_t seed)
{
    hashes++;
    return XXH3_64bits_withSeed(bytes, len, seed);
}

static uint64_t hash_last(const void *bytes, size_t len, uint64_t seed)
{
    return UINT64_MAX; /* the last place of each table */
}

/* --- making and freeing --- */

/* Users choose tokens: they must not know which collide. */
static void test_seeds(void **state)
{
    struct kv_pool *pool;
    struct prefix *a, *b, *c;
    assert_int_equal(kv_pool_new(&pool, 4), 0);
    assert_int_equal(prefix_new(&a, pool, NULL), 0);
    assert_int_equal(prefix_new(&b, pool, NULL), 0);
    assert_true(a->seed != b->seed && a->random != b->random && a->high != b->high);
    assert_true(a->seed && a->random && b->seed && b->random);
    assert_int_equal(prefix_new(&c, pool, hash_counted), 0);
    assert_true(!c->seed && !c->random);
    hashes = 0;
    struct prefix_match m;
    prefix_find(c, &(struct prefix_namespace){{1}}, items_tokens((const int32_t[]){1}, 1), &m);
    assert_true(hashes > 0);
    calls_fail(CALL_RANDOM, 0, EIO);
    struct prefix *d = NULL;
    assert_int_equal(prefix_new(&d, pool, NULL), -EIO);
    assert_true(calls_end());
    assert_null(d);
    prefix_free(a);
    prefix_free(b);
    prefix_free(c);
    kv_pool_free(pool);
}

static size_t used_memory(void)
{
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

/* Nothing stays behind: not the tables of a large pool, and not the nodes, scores and roots of users. */
static void test_freeing(void **state)
{
    enum { BLOCKS = 50000, NODES = 3000 };
    struct kv_pool *pool, *other;
    struct prefix *p;
    assert_int_equal(kv_pool_new(&pool, BLOCKS), 0);
    assert_int_equal(kv_pool_new(&other, BLOCKS), 0);
    for (int round = 0; round < 3; round++) {
        const size_t before = used_memory();
        assert_int_equal(prefix_new(&p, pool, round == 1 ? hash_last : NULL), 0);
        assert_int_equal(prefix_add_window(p, other, 64), 0);
        p->learn_from = 1;
        for (int i = 0; i < (round == 1 ? 300 : NODES); i++) {
            struct prefix_node *n;
            uint32_t block;
            struct prefix_namespace ns = {{(uint8_t)i, (uint8_t)(i >> 8)}};
            int32_t tokens[KV_BLOCK] = {i};
            assert_int_equal(kv_pool_take(pool, &block), 0);
            assert_int_equal(prefix_add(p, &ns, NULL, items_tokens(tokens, KV_BLOCK), block, i % 3, &n), 0);
            prefix_use(p, n);
            kv_pool_unref(pool, block);
        }
        const size_t with = used_memory();
        prefix_free(p);
        const size_t left = used_memory() - before;
        if (with > before) assert_true(left < 100000); /* a sanitizer's allocator counts nothing */
        assert_int_equal(kv_pool_free_blocks(pool), BLOCKS);
    }
    kv_pool_free(other);
    kv_pool_free(pool);
}

/* A node that somebody uses is not freed. */
static void test_freeing_what_is_used(void **state)
{
    static const prefix_hash_fn hash[] = {NULL, hash_last};
    for (int i = 0; i < 2; i++) {
        struct fixture r;
        struct prefix_node *n;
        int status;
        fixture_init(&r, 4);
        prefix_free(r.p);
        assert_int_equal(prefix_new(&r.p, r.pool, hash[i]), 0);
        assert_int_equal(fixture_add(&r, NULL, 1, KV_BLOCK, 10, &n), 0);
        prefix_ref(r.p, n);
        const pid_t child = fork();
        if (child == 0) {
            setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
            close(2);
            signal(SIGABRT, SIG_DFL);
            prefix_free(r.p);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        prefix_unref(r.p, n);
        fixture_fini(&r);
    }
}

/* --- tables --- */

static void test_table_size(void **state)
{
    static const struct {
        uint64_t expected, slots;
    } sizes[] = {{0, 64}, {64, 64}, {65, 128}, {1000, 1024}, {1024, 1024}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        struct table t;
        struct table_link links[1026];
        assert_int_equal(table_init(&t, sizes[i].expected), 0);
        assert_int_equal(t.mask + 1, sizes[i].slots);
        const uint64_t n = sizes[i].slots;
        for (uint64_t k = 0; k < n; k++) table_add(&t, &links[k], k * 7);
        assert_int_equal(t.mask + 1, n); /* as many as places */
        memory_fail(0);
        table_add(&t, &links[n], n * 7);
        assert_true(memory_end());
        assert_int_equal(t.mask + 1, n);
        table_remove(&t, &links[n]);
        table_add(&t, &links[n], n * 7);
        assert_int_equal(t.mask + 1, 2 * n);
        for (uint64_t k = 0; k <= n; k++) {
            struct table_link *l = table_first(&t, k * 7);
            while (l && l != &links[k]) l = table_next(l);
            assert_ptr_equal(l, &links[k]);
        }
        table_fini(&t);
    }
}

static void test_window_without_memory(void **state)
{
    struct fixture r;
    struct kv_pool *pool;
    fixture_init(&r, 4);
    assert_int_equal(kv_pool_new(&pool, 4), 0);
    memory_fail(0);
    assert_int_equal(prefix_add_window(r.p, pool, 64), -ENOMEM);
    assert_true(memory_end());
    assert_int_equal(r.p->n_windows, 0);
    assert_int_equal(prefix_add_window(r.p, pool, 64), 0);
    fixture_fini(&r);
    kv_pool_free(pool);
}

/* --- uses --- */

/* An evicted block that comes back has its uses; a partial one and one that is new have none. */
static void test_uses_come_back(void **state)
{
    struct fixture r;
    struct prefix_node *n, *partial;
    fixture_init(&r, 8);
    for (uint32_t full = 0; full < 2; full++) {
        const uint32_t tokens = full ? KV_BLOCK : 7;
        assert_int_equal(fixture_add(&r, NULL, 1, tokens, 10, &n), 0);
        assert_int_equal(n->uses, 1);
        prefix_use(r.p, n);
        prefix_use(r.p, n);
        assert_int_equal(prefix_evict(r.p, 9, NULL, NULL), 1);
        assert_int_equal(fixture_add(&r, NULL, 1, tokens, 10, &n), 0);
        assert_int_equal(n->uses, full ? 4 : 1);
        for (int i = 0; i < 20; i++) prefix_use(r.p, n);
        assert_int_equal(n->uses, PREFIX_USES_MAX);
        assert_int_equal(fixture_add(&r, NULL, 2, tokens, 10, &partial), 0);
        assert_int_equal(partial->uses, 1);
        assert_int_equal(prefix_evict(r.p, 9, NULL, NULL), 2);
    }
    fixture_fini(&r);
}

/* As many evictions are remembered as the index has blocks, but for those that a later one replaces. */
static void test_evictions_remembered(void **state)
{
    enum { BLOCKS = 1000 };
    struct fixture r;
    int32_t tokens[KV_BLOCK];
    int known = 0;
    fixture_init(&r, BLOCKS);
    assert_int_equal(r.p->ghost_mask, 2047);
    for (int i = 0; i < BLOCKS; i++) {
        struct prefix_node *n;
        assert_int_equal(fixture_add(&r, NULL, i, KV_BLOCK, 10, &n), 0);
    }
    assert_int_equal(prefix_evict(r.p, BLOCKS, NULL, NULL), BLOCKS);
    for (int i = 0; i < BLOCKS; i++) {
        fixture_fill(tokens, KV_BLOCK, i);
        known += fixture_find(&r, tokens, KV_BLOCK).miss == PREFIX_EVICTED;
    }
    assert_true(known > 600);
    fixture_fini(&r);
}

/* Scores are learned from that many blocks on, and forgotten below a quarter of them. */
static void test_learns_from(void **state)
{
    struct fixture r;
    struct prefix_node *n[8], *partial;
    fixture_init(&r, 16);
    r.p->learn_from = 8;
    for (int i = 0; i < 8; i++) {
        const struct prefix_owner *o = prefix_owner_find(r.p, 10);
        assert_true(!o || !o->score);
        assert_int_equal(fixture_add(&r, NULL, i, KV_BLOCK, 10, &n[i]), 0);
    }
    const struct prefix_owner *o = prefix_owner_find(r.p, 10);
    assert_null(o->score);
    prefix_use(r.p, n[0]);
    assert_non_null(o->score);
    const uint32_t since = o->score->since;
    assert_int_equal(fixture_add(&r, NULL, 100, 7, 10, &partial), 0);
    prefix_use(r.p, partial); /* partial blocks teach nothing */
    assert_int_equal(o->score->since, since);
    assert_int_equal(prefix_evict(r.p, 7, NULL, NULL), 7);
    assert_int_equal(o->stats.blocks_memory, 2);
    assert_non_null(o->score);
    assert_int_equal(prefix_evict(r.p, 1, NULL, NULL), 1);
    assert_null(o->score);
    fixture_fini(&r);
}

/* --- lookup --- */

/* More blocks than are looked up at once. */
static void test_long_chain(void **state)
{
    enum { LONG = 5 * PREFIX_PREFETCH + 3 };
    struct fixture r;
    struct prefix_node *n = NULL;
    int32_t tokens[(LONG + 1) * KV_BLOCK];
    fixture_init(&r, LONG);
    for (int i = 0; i <= LONG; i++) fixture_fill(tokens + i * KV_BLOCK, KV_BLOCK, i);
    for (int i = 0; i < LONG; i++) {
        const struct prefix_match m = fixture_find(&r, tokens, (LONG + 1) * KV_BLOCK);
        assert_true(m.n == (uint32_t)i * KV_BLOCK && m.node == n && m.miss == PREFIX_NEW);
        assert_int_equal(fixture_add(&r, n, i, KV_BLOCK, 10, &n), 0);
    }
    const struct prefix_match m = fixture_find(&r, tokens, LONG * KV_BLOCK);
    assert_true(m.n == LONG * KV_BLOCK && m.miss == PREFIX_ALL);
    fixture_fini(&r);
}

/* No items match, whatever there is. */
static void test_no_items(void **state)
{
    struct fixture r;
    struct prefix_node *n;
    uint32_t common = 9;
    fixture_init(&r, 4);
    for (int i = 0; i < 2; i++) {
        const struct prefix_match m = fixture_find(&r, NULL, 0);
        assert_true(!m.node && !m.n && !m.partial && !m.n_partial && !m.n_disk && m.miss == PREFIX_ALL);
        assert_null(prefix_child(r.p, &r.namespace, NULL, items_tokens(NULL, 0), &common));
        assert_int_equal(common, 0);
        assert_int_equal(fixture_add(&r, NULL, 1, KV_BLOCK, 10, &n), i);
    }
    fixture_fini(&r);
}

/* Text before an image is the same text as without it. */
static void test_text_before_a_run(void **state)
{
    struct fixture r;
    struct prefix_node *n;
    struct prefix_match m;
    int32_t ids[2 * KV_BLOCK];
    const struct item_run run = {.at = KV_BLOCK + 3, .n = 5, .kind = ITEM_IMAGE, .columns = 5, .digest = "a digest"};
    fixture_init(&r, 4);
    fixture_fill(ids, 2 * KV_BLOCK, 4);
    for (int i = 0; i < 5; i++) ids[KV_BLOCK + 3 + i] = ITEM_EMBD;
    assert_int_equal(fixture_add_tokens(&r, NULL, ids, KV_BLOCK, 10, &n), 0);
    const struct items items = {.ids = ids, .n = 2 * KV_BLOCK, .runs = &run, .n_runs = 1};
    assert_true(items_check(&items));
    prefix_find(r.p, &r.namespace, items, &m);
    assert_true(m.n == KV_BLOCK && m.node == n);
    fixture_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_freeing),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_freeing_what_is_used),
        cmocka_unit_test(test_table_size),
        cmocka_unit_test(test_window_without_memory),
        cmocka_unit_test(test_uses_come_back),
        cmocka_unit_test(test_evictions_remembered),
        cmocka_unit_test(test_learns_from),
        cmocka_unit_test(test_long_chain),
        cmocka_unit_test(test_no_items),
        cmocka_unit_test(test_text_before_a_run),
    };
    return cmocka_run_group_tests_name("prefix-limits", tests, NULL, NULL);
}

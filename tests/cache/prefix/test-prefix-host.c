/* SPDX-License-Identifier: MIT */
/* Nodes in host memory: what is kept there and found again, who gives up slots, and what is written to disk. */
#include "daemon/cache/prefix/prefix-node.h"
#include "tests/cache/prefix/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define BLOCKS 64
#define SLOTS  8

static struct {
    struct fixture rig;
    struct kv_pool *pool, *window;
    struct prefix_id slots[SLOTS]; /* whose blocks a slot has */
    uint8_t groups[SLOTS];         /* that were copied there */
    uint32_t copies, offers;
    struct prefix_id offered; /* the last one */
    bool broken, write;
} h;

static bool copy(void *ctx, const struct prefix_info *info, uint8_t groups, uint32_t slot)
{
    assert_true(ctx == &h && info->slot == slot && groups);
    for (uint32_t g = 0; g < 8; g++)
        if (groups >> g & 1) assert_int_not_equal(info->blocks[g], KV_NO_BLOCK);
    h.copies++;
    if (h.broken) return false;
    if (!prefix_id_equal(h.slots[slot], info->id)) h.groups[slot] = 0;
    h.slots[slot] = info->id;
    h.groups[slot] |= groups;
    return true;
}

static bool offer(void *ctx, const struct prefix_info *info)
{
    assert_true(ctx == &h);
    h.offers++;
    h.offered = info->id;
    return h.write;
}

static void begin(uint32_t slots, uint32_t window)
{
    memset(&h, 0, sizeof(h));
    fixture_init(&h.rig, BLOCKS);
    assert_int_equal(kv_pool_new(&h.pool, slots), 0);
    assert_int_equal(kv_pool_new(&h.window, BLOCKS), 0);
    if (window) assert_int_equal(prefix_add_window(h.rig.p, h.window, window), 0);
    prefix_add_host(h.rig.p, h.pool, copy, offer, &h);
}

static void end(void)
{
    fixture_fini(&h.rig);
    kv_pool_free(h.pool);
    kv_pool_free(h.window);
}

static struct prefix_node *add(struct prefix_node *parent, int32_t token, uid_t uid)
{
    struct prefix_node *n;
    assert_int_equal(fixture_add(&h.rig, parent, token, KV_BLOCK, uid, &n), 0);
    prefix_check(h.rig.p);
    return n;
}

static void evict(uint32_t blocks)
{
    assert_int_equal(prefix_evict(h.rig.p, blocks, offer, &h), blocks);
    prefix_check(h.rig.p);
}

static uint64_t blocks_host(uid_t uid)
{
    struct prefix_stats s;
    prefix_stats_get(h.rig.p, uid, &s);
    return s.blocks_host;
}

/* The slot that has the node's blocks; KV_NO_BLOCK: none. */
static uint32_t slot_of(const struct prefix_node *n)
{
    struct prefix_info info;
    prefix_info(n, &info);
    if (info.slot == KV_NO_BLOCK) return info.slot;
    assert_true(prefix_id_equal(h.slots[info.slot], info.id));
    assert_false((uint8_t)~info.slot_lacks & ~h.groups[info.slot]);
    return info.slot;
}

/* A chain that was evicted is found behind memory, and a slot becomes free when its node is in memory again. */
static void test_there_and_back(void **state)
{
    int32_t tokens[3 * KV_BLOCK + 3];
    struct prefix_node *n[3], *again;
    begin(SLOTS, 0);
    for (int i = 0; i < 3; i++) {
        n[i] = add(i ? n[i - 1] : NULL, 10 + i, 1);
        fixture_fill(tokens + i * KV_BLOCK, KV_BLOCK, 10 + i);
    }
    fixture_fill(tokens + 3 * KV_BLOCK, 3, 99);
    evict(2);
    struct prefix_match m = fixture_find(&h.rig, tokens, 3 * KV_BLOCK + 3);
    assert_true(m.node == n[0] && m.n == KV_BLOCK && m.n_disk == 2 * KV_BLOCK && m.n_known == 3 * KV_BLOCK);
    assert_int_equal(m.miss, PREFIX_NEW);
    assert_true(slot_of(n[0]) == KV_NO_BLOCK && slot_of(n[1]) != KV_NO_BLOCK && slot_of(n[2]) != KV_NO_BLOCK);
    assert_true(blocks_host(1) == 2 && blocks_host(2) == 0 && blocks_host((uid_t)-1) == 2);
    assert_int_equal(fixture_add(&h.rig, n[0], 11, KV_BLOCK, 2, &again), 0); /* the first uid stays its owner */
    assert_true(again == n[1] && slot_of(n[1]) == KV_NO_BLOCK && blocks_host(1) == 1);
    prefix_check(h.rig.p);
    evict(2);
    assert_int_equal(h.copies, 4);
    assert_int_equal(h.offers, 0); /* nothing has left host memory */
    assert_int_equal(kv_pool_free_blocks(h.pool), SLOTS - 3);
    end();
}

/* A lookup sees only its own namespace. */
static void test_namespaces(void **state)
{
    int32_t tokens[KV_BLOCK];
    const struct prefix_namespace other = {{9}};
    struct prefix_match m;
    begin(SLOTS, 0);
    add(NULL, 10, 1);
    evict(1);
    fixture_fill(tokens, KV_BLOCK, 10);
    prefix_find(h.rig.p, &other, items_tokens(tokens, KV_BLOCK), &m);
    assert_true(m.n == 0 && m.n_disk == 0);
    assert_int_equal(fixture_find(&h.rig, tokens, KV_BLOCK).n_disk, KV_BLOCK);
    end();
}

/* Without a free slot the uid with most slots gives up the one that it used least recently, but none that is pinned. */
static void test_who_gives(void **state)
{
    struct prefix_node *n[6];
    begin(4, 0);
    for (int i = 0; i < 3; i++) n[i] = add(NULL, 10 + i, 1);
    n[3] = add(NULL, 13, 2);
    evict(4);
    prefix_touch(h.rig.p, n[0]);
    prefix_ref(h.rig.p, n[1]);
    prefix_check(h.rig.p);
    n[4] = add(NULL, 14, 2);
    evict(1); /* of uid 1: n[0] was used last, n[1] is pinned */
    assert_true(h.offers == 1 && blocks_host(1) == 2 && blocks_host(2) == 2);
    assert_true(slot_of(n[0]) != KV_NO_BLOCK && slot_of(n[1]) != KV_NO_BLOCK && slot_of(n[3]) != KV_NO_BLOCK);
    prefix_ref(h.rig.p, n[0]);
    prefix_ref(h.rig.p, n[3]);
    prefix_ref(h.rig.p, n[4]);
    n[5] = add(NULL, 15, 3);
    evict(1); /* all are pinned: it is offered to the disk */
    assert_true(h.offers == 2 && blocks_host(3) == 0 && blocks_host((uid_t)-1) == 4);
    prefix_unref(h.rig.p, n[0]);
    prefix_unref(h.rig.p, n[1]);
    prefix_unref(h.rig.p, n[3]);
    prefix_unref(h.rig.p, n[4]);
    end();
}

/* The end of a chain leaves before its beginning, which it would be lost without. */
static void test_chain(void **state)
{
    struct prefix_node *n[5] = {NULL};
    begin(3, 0);
    for (int i = 0; i < 5; i++) n[i] = add(i ? n[i - 1] : NULL, 10 + i, 1);
    const struct prefix_id ids[] = {fixture_id(n[3]), fixture_id(n[4])};
    evict(4); /* 4, 3, 2; then 1, for which 4 leaves */
    assert_true(h.offers == 1 && prefix_id_equal(h.offered, ids[1]));
    evict(1);
    assert_true(h.offers == 2 && prefix_id_equal(h.offered, ids[0]));
    for (int i = 0; i < 3; i++) assert_int_not_equal(slot_of(n[i]), KV_NO_BLOCK);
    end();
}

/* What cannot be copied, or may not be kept, is evicted as without host memory. */
static void test_not_kept(void **state)
{
    int32_t tokens[KV_BLOCK];
    begin(SLOTS, 0);
    h.broken = true;
    add(NULL, 10, 1);
    evict(1);
    assert_true(h.copies == 1 && h.offers == 1 && kv_pool_free_blocks(h.pool) == SLOTS);
    fixture_fill(tokens, KV_BLOCK, 10);
    assert_int_equal(fixture_find(&h.rig, tokens, KV_BLOCK).miss, PREFIX_EVICTED);
    add(NULL, 11, 1);
    assert_int_equal(prefix_evict(h.rig.p, 1, NULL, NULL), 1);
    assert_true(h.copies == 1 && blocks_host(1) == 0);
    prefix_check(h.rig.p);
    end();
}

/* A node is written to disk from host memory: when it is idle, or when it leaves. */
static void test_disk(void **state)
{
    struct prefix_node *n[3] = {NULL};
    struct prefix_info info;
    begin(2, 0);
    for (int i = 0; i < 3; i++) n[i] = add(i ? n[i - 1] : NULL, 10 + i, 1);
    evict(2);
    assert_true(prefix_disk_begin_write(h.rig.p, false, 0, &info) && prefix_id_equal(info.id, fixture_id(n[0])));
    prefix_disk_written(h.rig.p, info.id);
    assert_true(prefix_disk_begin_write(h.rig.p, false, 0, &info) && prefix_id_equal(info.id, fixture_id(n[1])));
    assert_true(info.block == KV_NO_BLOCK && info.slot == slot_of(n[1]));
    prefix_check(h.rig.p);
    prefix_disk_written(h.rig.p, info.id);
    prefix_info(n[1], &info);
    assert_true(info.on_disk && info.slot != KV_NO_BLOCK);
    h.write = true;
    const struct prefix_id last = fixture_id(n[2]);
    evict(1); /* for the first one, the last one leaves, and is written; it stays so long */
    assert_true(h.offers == 1 && prefix_id_equal(h.offered, last) && slot_of(n[2]) == KV_NO_BLOCK);
    prefix_disk_written(h.rig.p, last);
    prefix_check(h.rig.p);
    prefix_info(n[2], &info);
    assert_true(info.on_disk && info.slot == KV_NO_BLOCK);
    prefix_disk_removed(h.rig.p, fixture_id(n[2]));
    prefix_disk_removed(h.rig.p, fixture_id(n[1])); /* its slot stays */
    assert_true(slot_of(n[1]) != KV_NO_BLOCK);
    prefix_check(h.rig.p);
    end();
}

/* What slots have is lost: nodes that are nowhere else leave the index, others only host memory. */
static void test_lost(void **state)
{
    struct prefix_node *n[3] = {NULL};
    bool lost[SLOTS] = {false};
    int32_t tokens[3 * KV_BLOCK];
    struct prefix_info info;
    begin(SLOTS, 0);
    for (int i = 0; i < 3; i++) {
        n[i] = add(i ? n[i - 1] : NULL, 10 + i, 1);
        fixture_fill(tokens + i * KV_BLOCK, KV_BLOCK, 10 + i);
    }
    assert_true(prefix_disk_begin_write(h.rig.p, false, 0, &info));
    prefix_disk_written(h.rig.p, info.id);
    evict(3);
    lost[slot_of(n[0])] = lost[slot_of(n[2])] = true;
    prefix_host_lost(h.rig.p, lost);
    prefix_check(h.rig.p);
    const struct prefix_match m = fixture_find(&h.rig, tokens, 3 * KV_BLOCK);
    assert_true(m.n_disk == 2 * KV_BLOCK && m.miss == PREFIX_EVICTED);
    assert_true(slot_of(n[0]) == KV_NO_BLOCK && slot_of(n[1]) != KV_NO_BLOCK && blocks_host(1) == 1);
    end();
}

/* A partial node that a longer one covers leaves host memory, too. */
static void test_covered(void **state)
{
    struct prefix_node *n, *longer;
    for (int pinned = 0; pinned < 2; pinned++) {
        begin(SLOTS, 0);
        assert_int_equal(fixture_add(&h.rig, NULL, 7, 5, 1, &n), 0);
        evict(1);
        assert_int_equal(blocks_host(1), 1);
        if (pinned) prefix_ref(h.rig.p, n);
        assert_int_equal(fixture_add(&h.rig, NULL, 7, 9, 1, &longer), 0);
        prefix_check(h.rig.p);
        assert_int_equal(blocks_host(1), pinned);
        if (pinned) prefix_unref(h.rig.p, n);
        prefix_check(h.rig.p);
        assert_int_equal(blocks_host(1), 0);
        end();
    }
}

/* The blocks of groups with a window go with the node; a hit needs those that a token sees. */
static void test_windows(void **state)
{
    int32_t tokens[4 * KV_BLOCK];
    struct prefix_node *n[4] = {NULL};
    begin(SLOTS, KV_BLOCK);
    for (int i = 0; i < 4; i++) {
        uint32_t block;
        n[i] = add(i ? n[i - 1] : NULL, 10 + i, 1);
        fixture_fill(tokens + i * KV_BLOCK, KV_BLOCK, 10 + i);
        if (i == 1) continue; /* lacks its block */
        assert_int_equal(kv_pool_take(h.window, &block), 0);
        prefix_window_attach(h.rig.p, n[i], 1, block, KV_BLOCK);
        kv_pool_unref(h.window, block);
    }
    evict(4);
    assert_int_equal(kv_pool_free_blocks(h.window), BLOCKS);
    for (int i = 0; i < 4; i++) {
        struct prefix_info info;
        prefix_info(n[i], &info);
        assert_int_equal((uint8_t)~info.slot_lacks, i == 1 ? 1 : 3);
        assert_int_equal(h.groups[slot_of(n[i])], i == 1 ? 1 : 3);
    }
    assert_int_equal(fixture_find(&h.rig, tokens, 4 * KV_BLOCK).n_disk, 4 * KV_BLOCK);
    assert_int_equal(fixture_find(&h.rig, tokens, 2 * KV_BLOCK).n_disk, KV_BLOCK);
    end();
}

/* --- at random --- */

static uint32_t rnd(uint32_t n)
{
    static uint64_t x = 1;
    x = x * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(x >> 33) % n;
}

/* The node gets its block in the group with a window, unless it has it. */
static void attach(struct prefix_node *n, uint32_t tokens)
{
    uint32_t block;
    if (prefix_window_block(n, 1) != KV_NO_BLOCK) return;
    if (!kv_pool_free_blocks(h.window) && prefix_window_evict(h.rig.p, 1, 1, offer, &h) == 0) return;
    assert_int_equal(kv_pool_take(h.window, &block), 0);
    prefix_window_attach(h.rig.p, n, 1, block, tokens);
    kv_pool_unref(h.window, block);
}

/* Continue a chain of a few tokens where it ends; nodes on the way that are not in memory are added again. */
static void grow(int32_t kind, uint32_t depth, uid_t uid)
{
    struct prefix_node *at = NULL, *n;
    for (uint32_t i = 0; i < depth; i++) {
        const uint32_t tokens = i + 1 == depth && rnd(3) == 0 ? 1 + rnd(31) : KV_BLOCK;
        if (!kv_pool_free_blocks(h.rig.pool) && prefix_evict(h.rig.p, 1, offer, &h) == 0) break;
        assert_in_range(fixture_add(&h.rig, at, (int32_t)(100 * uid + kind * 10 + (int32_t)i), tokens, uid, &n), 0, 1);
        if (at) prefix_unref(h.rig.p, at);
        prefix_ref(h.rig.p, n);
        at = n;
        if (n->group.n && rnd(2)) attach(n, tokens);
        if (tokens < KV_BLOCK) break;
    }
    if (at) prefix_unref(h.rig.p, at);
}

static void random_steps(uint32_t window)
{
    struct prefix_info info, written[4];
    uint32_t n_written = 0;
    begin(SLOTS, window);
    for (int step = 0; step < 6000; step++) {
        const uint32_t what = rnd(window ? 12 : 10);
        h.broken = rnd(10) == 0;
        h.write = false;
        if (what < 5) grow((int32_t)rnd(4), 1 + rnd(6), 1 + rnd(3));
        if (what == 5) prefix_evict(h.rig.p, 1 + rnd(9), rnd(5) ? offer : NULL, &h);
        if (what == 6 && n_written < 4 && prefix_disk_begin_write(h.rig.p, rnd(2), 0, &info))
            written[n_written++] = info;
        if (what == 7 && n_written) prefix_disk_written(h.rig.p, written[--n_written].id);
        if (what == 8 && n_written) prefix_disk_write_failed(h.rig.p, written[--n_written].id);
        if (what == 9 && prefix_disk_victim(h.rig.p, &info)) prefix_disk_removed(h.rig.p, info.id);
        if (what > 9) prefix_window_evict(h.rig.p, 1, 1 + rnd(9), rnd(5) ? offer : NULL, &h);
        prefix_check(h.rig.p);
        for (uint64_t i = 0; i <= h.rig.p->ids.mask; i++)
            for (struct table_link *l = h.rig.p->ids.slots[i]; l; l = l->next) slot_of(NODE_OF(l, by_id));
    }
    assert_true(h.copies > 1000 && h.offers > 100);
    end();
}

static void test_random(void **state)
{
    random_steps(0);
}

static void test_random_windows(void **state)
{
    random_steps(2 * KV_BLOCK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_namespaces),     cmocka_unit_test(test_who_gives),
        cmocka_unit_test(test_chain),          cmocka_unit_test(test_not_kept),       cmocka_unit_test(test_disk),
        cmocka_unit_test(test_covered),        cmocka_unit_test(test_lost),           cmocka_unit_test(test_windows),
        cmocka_unit_test(test_random),         cmocka_unit_test(test_random_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

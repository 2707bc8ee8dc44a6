/* SPDX-License-Identifier: MIT */
/* Groups with a window and files: what can be continued from memory and disk together, which nodes are written again,
 * where exactly a window ends, and which user's blocks are evicted. */
#include "daemon/cache/prefix/prefix-node.h"
#include "tests/cache/prefix/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define CHAIN 8

static struct {
    struct fixture rig;
    struct kv_pool *pools[2];
    uint32_t groups;
    struct prefix_node *nodes[CHAIN];
    int32_t tokens[CHAIN * KV_BLOCK];
} c;

static void attach(struct prefix_node *n, uint32_t group)
{
    uint32_t block;
    assert_int_equal(kv_pool_take(c.pools[group - 1], &block), 0);
    prefix_window_attach(c.rig.p, n, group, block, KV_BLOCK);
    kv_pool_unref(c.pools[group - 1], block);
}

/* A chain of full blocks of uid 1, with blocks in @groups groups that have a window. */
static void begin(uint32_t groups, uint32_t window)
{
    fixture_init(&c.rig, 64);
    c.groups = groups;
    for (uint32_t g = 0; g < groups; g++) {
        assert_int_equal(kv_pool_new(&c.pools[g], 64), 0);
        assert_int_equal(prefix_add_window(c.rig.p, c.pools[g], window), 0);
    }
    for (int i = 0; i < CHAIN; i++) {
        fixture_fill(c.tokens + i * KV_BLOCK, KV_BLOCK, 100 + i);
        assert_int_equal(fixture_add(&c.rig, i ? c.nodes[i - 1] : NULL, 100 + i, KV_BLOCK, 1, &c.nodes[i]), 0);
        for (uint32_t g = 1; g <= groups; g++) attach(c.nodes[i], g);
    }
}

static void end(void)
{
    fixture_fini(&c.rig);
    for (uint32_t g = 0; g < c.groups; g++) kv_pool_free(c.pools[g]);
}

/* The node's block in the group leaves memory. */
static void lose(int i, uint32_t group)
{
    prefix_window_drop(c.rig.p, group - 1, &c.nodes[i]->group.windows[group - 1]);
    prefix_node_requeue(c.rig.p, c.nodes[i]);
    prefix_check(c.rig.p);
}

static void write_all(void)
{
    struct prefix_info info;
    while (prefix_disk_begin_write(c.rig.p, false, 0, &info)) prefix_disk_written(c.rig.p, info.id);
    prefix_check(c.rig.p);
}

/* The first @n tokens of the chain are found as that. */
static void check_find(uint32_t n, uint32_t full, uint32_t partial, uint32_t disk, enum prefix_miss miss)
{
    const struct prefix_match m = fixture_find(&c.rig, c.tokens, n);
    if (m.n != full || m.n_partial != partial || m.n_disk != disk || m.miss != miss)
        fail_msg("%u tokens: %u in memory and %u, %u on disk, miss %d", n, m.n, m.n_partial, m.n_disk, (int)m.miss);
    assert_true(!m.partial == !m.n_partial);
}

/* A file can have what memory lacks. */
static void test_find(void **state)
{
    enum { B = KV_BLOCK };
    begin(1, 64);
    lose(5, 1); /* which its file will lack, too */
    struct prefix_info info;
    prefix_info(c.nodes[5], &info);
    assert_true(!info.on_disk && info.lacks == 2);
    prefix_info(c.nodes[4], &info);
    assert_int_equal(info.lacks, 0);
    write_all();
    check_find(5 * B, 5 * B, 0, 0, PREFIX_ALL);
    check_find(5 * B + 5, 5 * B, 0, 0, PREFIX_EVICTED);
    check_find(6 * B, 5 * B, 0, 0, PREFIX_EVICTED);
    check_find(6 * B + 5, 5 * B, 0, 0, PREFIX_EVICTED);
    check_find(8 * B, 8 * B, 0, 0, PREFIX_ALL);
    check_find(7 * B + 5, 5 * B, 0, 0, PREFIX_EVICTED);
    lose(2, 1); /* which its file has */
    check_find(2 * B + 5, 2 * B, 0, 5, PREFIX_ALL);
    check_find(3 * B, 2 * B, 0, B, PREFIX_ALL);
    check_find(3 * B + 5, 2 * B, 0, B + 5, PREFIX_ALL);
    check_find(4 * B, 2 * B, 0, 2 * B, PREFIX_ALL);
    check_find(4 * B + 5, 2 * B, 0, 2 * B + 5, PREFIX_ALL);
    check_find(5 * B + 5, 5 * B, 0, 0, PREFIX_EVICTED);
    lose(7, 1);
    check_find(8 * B, 5 * B, 0, 3 * B, PREFIX_ALL); /* which sees 6 and 7; a token before them sees 5 */
    check_find(7 * B, 5 * B, 0, 0, PREFIX_EVICTED);
    attach(c.nodes[5], 1);
    check_find(8 * B, 7 * B, 0, B, PREFIX_ALL);
    check_find(7 * B + 9, 7 * B, 0, 9, PREFIX_ALL);
    check_find(6 * B + 9, 6 * B, 9, 0, PREFIX_ALL);
    int32_t other[CHAIN * B];
    for (int i = 0; i < CHAIN * B; i++) other[i] = i < 7 * B + 9 ? c.tokens[i] : 1;
    const struct prefix_match m = fixture_find(&c.rig, other, CHAIN * B);
    assert_true(m.n == 7 * B && m.n_disk == 9 && m.miss == PREFIX_NEW);
    end();
}

/* Of two children that share as much, the one in memory can be continued, and the other one's file cannot. */
static void test_find_beside_a_file(void **state)
{
    enum { SHARED = 5 };
    struct prefix_node *file, *memory;
    struct prefix_info info;
    int32_t tokens[KV_BLOCK];
    begin(1, 64);
    fixture_fill(tokens, KV_BLOCK, 7);
    tokens[SHARED] = 1;
    assert_int_equal(fixture_add_tokens(&c.rig, NULL, tokens, KV_BLOCK, 2, &file), 0);
    while (prefix_disk_begin_write(c.rig.p, true, 0, &info)) prefix_disk_written(c.rig.p, info.id);
    prefix_ref(c.rig.p, c.nodes[CHAIN - 1]);
    assert_int_equal(prefix_evict(c.rig.p, 1, NULL, NULL), 1);
    prefix_unref(c.rig.p, c.nodes[CHAIN - 1]);
    assert_int_equal(prefix_block(file), KV_NO_BLOCK);
    tokens[SHARED] = 9;
    assert_int_equal(fixture_add_tokens(&c.rig, NULL, tokens, KV_BLOCK, 2, &memory), 0);
    attach(memory, 1);
    tokens[SHARED] = 5;
    const struct prefix_match m = fixture_find(&c.rig, tokens, KV_BLOCK);
    assert_true(m.partial == memory && m.n_partial == SHARED && !m.n_disk && m.miss == PREFIX_NEW);
    end();
}

/* A file that is being replaced cannot be read. */
static void test_find_in_a_file_being_replaced(void **state)
{
    struct prefix_info info;
    begin(2, 64);
    lose(0, 2);
    write_all();
    attach(c.nodes[0], 2);
    assert_true(prefix_disk_begin_write(c.rig.p, false, 0, &info)); /* with group 2 */
    assert_true(prefix_id_equal(info.id, fixture_id(c.nodes[0])));
    lose(0, 1);
    check_find(KV_BLOCK, 0, 0, 0, PREFIX_EVICTED);
    prefix_disk_written(c.rig.p, info.id);
    check_find(KV_BLOCK, 0, 0, KV_BLOCK, PREFIX_ALL);
    end();
}

/* A node is written again if it has more than its file and nothing less. */
static void test_written_again(void **state)
{
    struct prefix_info info;
    begin(2, 64);
    lose(3, 1);
    write_all();
    assert_false(prefix_disk_begin_write(c.rig.p, false, 0, &info));
    lose(3, 2);
    attach(c.nodes[3], 1); /* the file has group 2, memory group 1 */
    assert_false(prefix_disk_begin_write(c.rig.p, false, 0, &info));
    attach(c.nodes[3], 2);
    assert_true(prefix_disk_begin_write(c.rig.p, false, 0, &info));
    assert_true(prefix_id_equal(info.id, fixture_id(c.nodes[3])) && info.lacks == 0);
    lose(5, 1);
    attach(c.nodes[5], 1);
    assert_false(prefix_disk_begin_write(c.rig.p, false, 0, &info)); /* it is being written */
    prefix_disk_written(c.rig.p, fixture_id(c.nodes[3]));
    assert_false(prefix_disk_begin_write(c.rig.p, false, 0, &info));
    end();
}

static uint32_t offers;

static bool offered(void *ctx, const struct prefix_info *info)
{
    offers++;
    return false;
}

/* Only what the disk does not have is offered to it. */
static void test_offers(void **state)
{
    begin(1, 64);
    offers = 0;
    assert_int_equal(prefix_window_evict(c.rig.p, 1, 2, offered, NULL), 2);
    assert_int_equal(offers, 2);
    write_all();
    assert_int_equal(prefix_window_evict(c.rig.p, 1, 2, offered, NULL), 2);
    assert_int_equal(offers, 2);
    end();
}

/* With a window of 65 a token at 32 k sees the blocks k - 1 and k - 2 and nothing before, with 66 one position more. */
static void test_where_a_window_ends(void **state)
{
    for (uint32_t window = 64; window <= 66; window++) {
        const uint32_t seen = window < 66 ? 2 : 3;
        for (uint32_t back = 1; back <= 4; back++) {
            begin(1, window);
            lose(CHAIN - (int)back, 1);
            const struct prefix_match m = fixture_find(&c.rig, c.tokens, CHAIN * KV_BLOCK);
            assert_int_equal(m.n, back > seen ? CHAIN * KV_BLOCK : (CHAIN - back) * KV_BLOCK);
            end();
        }
    }
}

/* --- users --- */

static uint32_t blocks_of(uid_t uid)
{
    const struct prefix_owner *o = prefix_owner_find(c.rig.p, uid);
    return o ? o->windows[0].n : 0;
}

/* Who has most gives first, until nobody has more than the others: whatever the order of the users is. */
static void test_users_give_evenly(void **state)
{
    static const struct {
        uint32_t has[3], evict, left[3];
    } cases[] = {
        {{10, 7, 5}, 2, {8, 7, 5}}, {{10, 7, 5}, 3, {7, 7, 5}},  {{10, 5, 7}, 3, {7, 5, 7}}, {{5, 7, 10}, 3, {5, 7, 7}},
        {{7, 10, 5}, 3, {7, 7, 5}}, {{10, 7, 5}, 22, {0, 0, 0}}, {{9, 1, 1}, 8, {1, 1, 1}},  {{1, 9, 1}, 8, {1, 1, 1}},
        {{6, 6, 6}, 18, {0, 0, 0}}, {{10, 9, 0}, 15, {2, 2, 0}}, {{3, 12, 4}, 9, {3, 3, 4}}, {{12, 3, 4}, 8, {4, 3, 4}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        begin(1, 64);
        assert_int_equal(prefix_window_evict(c.rig.p, 1, CHAIN, NULL, NULL), CHAIN);
        for (uint32_t u = 0; u < 3; u++)
            for (uint32_t k = 0; k < cases[i].has[u]; k++) {
                struct prefix_node *n;
                assert_int_equal(fixture_add(&c.rig, NULL, (int32_t)(1000 * (u + 1) + k), KV_BLOCK, u + 2, &n), 0);
                attach(n, 1);
            }
        assert_int_equal(prefix_window_evict(c.rig.p, 1, cases[i].evict, NULL, NULL), cases[i].evict);
        prefix_check(c.rig.p);
        uint32_t most = 0, want = 0, sum = 0, left = 0;
        for (uint32_t u = 0; u < 3; u++) {
            const uint32_t n = blocks_of(u + 2);
            most = n > most ? n : most;
            want = cases[i].left[u] > want ? cases[i].left[u] : want;
            sum += cases[i].left[u];
            left += n;
        }
        assert_int_equal(left, sum);
        assert_int_equal(most, want);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_find_beside_a_file),
        cmocka_unit_test(test_find_in_a_file_being_replaced),
        cmocka_unit_test(test_written_again),
        cmocka_unit_test(test_offers),
        cmocka_unit_test(test_where_a_window_ends),
        cmocka_unit_test(test_users_give_evenly),
    };
    return cmocka_run_group_tests_name("prefix-window-disk", tests, NULL, NULL);
}

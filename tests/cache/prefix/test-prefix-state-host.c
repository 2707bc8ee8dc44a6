/* SPDX-License-Identifier: MIT */
/* Recurrent states in host memory: what comes there, what is found there, and what leaves it. */
#include "daemon/cache/prefix/prefix-node.h"
#include "tests/cache/prefix/state-chain.h"
#include <string.h>

/* The slot that has the node's state; KV_NO_BLOCK: none. */
static uint32_t slot_of(const struct chain *c, const struct prefix_node *n)
{
    const uint32_t slot = prefix_state_slot(n);
    if (slot != KV_NO_BLOCK) assert_true(prefix_id_equal(c->copied[slot], fixture_id(n)));
    return slot;
}

static uint64_t states_host(const struct chain *c, uid_t uid)
{
    struct prefix_stats s;
    prefix_stats_get(c->rig.p, uid, &s);
    return s.states_host;
}

static bool keep_blocks(void *ctx, const struct prefix_info *info)
{
    return false;
}

/* Blocks leave memory, and with them states, to host memory if @keep. */
static void evict_blocks(struct chain *c, uint32_t n, bool keep)
{
    assert_int_equal(prefix_evict(c->rig.p, n, keep ? keep_blocks : NULL, NULL), n);
    prefix_check(c->rig.p);
}

static void evict_states(struct chain *c, uint32_t n)
{
    assert_int_equal(prefix_state_evict(c->rig.p, n), n);
    prefix_check(c->rig.p);
}

/* A state that is evicted alone is found behind memory, and its slot is free once another copy is in memory. */
static void test_alone(void **state)
{
    struct chain *c = *state;
    chain_attach(c, c->nodes[2], PREFIX_STATE_NEAR);
    evict_states(c, 1);
    assert_true(prefix_state_block(c->nodes[2]) == KV_NO_BLOCK && slot_of(c, c->nodes[2]) != KV_NO_BLOCK);
    assert_true(states_host(c, 1) == 1 && states_host(c, 2) == 0 && states_host(c, (uid_t)-1) == 1);
    assert_int_equal(c->evicted, 0); /* it is not offered to the disk */
    struct prefix_match m = fixture_find(&c->rig, c->tokens, CHAIN * KV_BLOCK);
    assert_true(!m.node && m.n == 0 && m.state == c->nodes[2] && m.n_disk == 3 * KV_BLOCK);
    chain_attach(c, c->nodes[2], PREFIX_STATE_NEAR);
    assert_true(slot_of(c, c->nodes[2]) == KV_NO_BLOCK && kv_pool_free_blocks(c->slots) == SLOTS);
    m = fixture_find(&c->rig, c->tokens, CHAIN * KV_BLOCK);
    assert_true(m.node == c->nodes[2] && !m.state && m.n == 3 * KV_BLOCK);
}

/* With its node, whose KV is kept: both are found, and lost together. What has no KV left has no use. */
static void test_with_its_node(void **state)
{
    struct chain *c = *state;
    struct prefix_node *other = chain_alone(c, 1, 2);
    bool lost[2 * CHAIN];
    chain_attach(c, c->nodes[7], PREFIX_STATE_TURN);
    chain_attach(c, other, PREFIX_STATE_TURN);
    evict_blocks(c, 1, true); /* of uid 1, which has more */
    assert_true(slot_of(c, c->nodes[7]) != KV_NO_BLOCK && prefix_host_slot(c->nodes[7]) != KV_NO_BLOCK);
    struct prefix_match m = fixture_find(&c->rig, c->tokens, CHAIN * KV_BLOCK);
    assert_true(!m.node && m.state == c->nodes[7] && m.n_disk == CHAIN * KV_BLOCK);
    evict_blocks(c, CHAIN, false);
    assert_true(c->copies == 1 && c->evicted == 0 && chain_states(c) == 0 && states_host(c, 1) == 1);
    memset(lost, true, sizeof(lost));
    prefix_host_lost(c->rig.p, lost);
    prefix_check(c->rig.p);
    assert_true(states_host(c, 1) == 0 && kv_pool_free_blocks(c->slots) == SLOTS);
}

/* Without a free slot, the uid with most of them gives up the one of least worth; it is offered to the disk. */
static void test_full(void **state)
{
    struct chain *c = *state;
    struct prefix_node *n[SLOTS + 2];
    for (int i = 0; i < SLOTS + 2; i++) {
        n[i] = chain_alone(c, 1 + i, i == 0 ? 3 : 2);
        chain_attach(c, n[i], PREFIX_STATE_TURN);
        if (i == 1) kv_pool_ref(c->slots, prefix_state_slot(n[0])); /* a job reads it */
        evict_states(c, 1);
    }
    kv_pool_unref(c->slots, prefix_state_slot(n[0]));
    assert_true(c->evicted == 2 && prefix_id_equal(c->left.id, fixture_id(n[2])) && c->left.state_slot != KV_NO_BLOCK);
    for (int i = 0; i < SLOTS + 2; i++) assert_int_equal(slot_of(c, n[i]) == KV_NO_BLOCK, i == 1 || i == 2);
    assert_true(states_host(c, 3) == 1 && states_host(c, 2) == SLOTS - 1);
    prefix_state_use(c->rig.p, n[3]);
    chain_attach(c, c->nodes[0], PREFIX_STATE_TURN);
    evict_states(c, 1);
    assert_true(slot_of(c, n[3]) != KV_NO_BLOCK && slot_of(c, n[4]) == KV_NO_BLOCK && c->evicted == 3);
}

/* All slots are held, or nothing can be copied: the state is offered to the disk, as without host memory. */
static void test_no_slot(void **state)
{
    struct chain *c = *state;
    uint32_t held[SLOTS];
    chain_attach(c, c->nodes[0], PREFIX_STATE_TURN);
    c->broken = true;
    evict_states(c, 1);
    assert_true(c->copies == 1 && c->evicted == 1 && c->left.state != KV_NO_BLOCK);
    assert_true(slot_of(c, c->nodes[0]) == KV_NO_BLOCK && kv_pool_free_blocks(c->slots) == SLOTS);
    c->broken = false;
    for (int i = 0; i < SLOTS; i++) {
        chain_attach(c, c->nodes[i], PREFIX_STATE_TURN);
        evict_states(c, 1);
        kv_pool_ref(c->slots, held[i] = slot_of(c, c->nodes[i]));
    }
    chain_attach(c, c->nodes[7], PREFIX_STATE_NEAR);
    evict_states(c, 1);
    assert_true(states_host(c, 1) == SLOTS && c->evicted == 1 && prefix_state_slot(c->nodes[7]) == KV_NO_BLOCK);
    for (int i = 0; i < SLOTS; i++) kv_pool_unref(c->slots, held[i]);
}

static void write_blocks(struct chain *c)
{
    struct prefix_info info;
    while (prefix_disk_begin_write(c->rig.p, false, 0, &info)) prefix_disk_written(c->rig.p, info.id);
    prefix_check(c->rig.p);
}

/* A state is written to disk from its slot, and stays there as long as its node's KV is anywhere. */
static void test_disk(void **state)
{
    struct chain *c = *state;
    struct prefix_info info;
    bool lost[2 * CHAIN];
    chain_attach(c, c->nodes[0], PREFIX_STATE_TURN);
    chain_attach(c, c->nodes[1], PREFIX_STATE_NEAR);
    evict_states(c, 2);
    write_blocks(c);
    assert_true(prefix_state_begin_write(c->rig.p, true, &info) && prefix_id_equal(info.id, fixture_id(c->nodes[0])));
    assert_true(info.state == KV_NO_BLOCK && info.state_slot == slot_of(c, c->nodes[0]));
    assert_false(prefix_states_to_write(c->rig.p)); /* the other one is not worth a file */
    prefix_state_written(c->rig.p, info.id);
    evict_blocks(c, CHAIN, false);
    assert_true(states_host(c, 1) == 2 && prefix_state_on_disk(c->nodes[0]));
    memset(lost, true, sizeof(lost));
    const uint32_t slot = slot_of(c, c->nodes[0]);
    lost[slot_of(c, c->nodes[1])] = false;
    prefix_state_slots_lost(c->rig.p, lost);
    prefix_check(c->rig.p);
    assert_true(states_host(c, 1) == 1 && prefix_state_readable(c->nodes[0]) && slot != KV_NO_BLOCK);
    for (int i = CHAIN - 1; i > 0; i--) prefix_disk_removed(c->rig.p, fixture_id(c->nodes[i]));
    prefix_check(c->rig.p);
    assert_true(states_host(c, 1) == 0 && kv_pool_free_blocks(c->slots) == SLOTS);
}

/* KV that is being written counts as kept, until that fails. */
static void test_while_it_is_written(void **state)
{
    struct chain *c = *state;
    struct prefix_info info;
    struct prefix_node *n = chain_alone(c, 1, 2);
    for (int i = 0; i < 2; i++) {
        chain_attach(c, n, PREFIX_STATE_NEAR);
        while (prefix_disk_begin_write(c->rig.p, true, 0, &info) && !prefix_id_equal(info.id, fixture_id(n)))
            prefix_disk_write_failed(c->rig.p, info.id);
        prefix_ref(c->rig.p, c->nodes[7]); /* uid 1 has nothing to give */
        evict_blocks(c, 1, false);
        prefix_unref(c->rig.p, c->nodes[7]);
        assert_true(states_host(c, 2) == 1 && slot_of(c, n) != KV_NO_BLOCK);
        if (i == 0) {
            prefix_disk_written(c->rig.p, info.id);
            prefix_check(c->rig.p);
            assert_int_equal(states_host(c, 2), 1);
            prefix_disk_removed(c->rig.p, info.id);
            n = chain_alone(c, 1, 2);
        } else {
            prefix_disk_write_failed(c->rig.p, info.id);
        }
        prefix_check(c->rig.p);
        assert_int_equal(states_host(c, 2), 0);
    }
}

/* A later state replaces one that is not the end of a turn, wherever it is; and the end of a turn remains one. */
static void test_kinds(void **state)
{
    struct chain *c = *state;
    struct prefix_info info;
    chain_attach(c, c->nodes[0], PREFIX_STATE_NEAR);
    chain_attach(c, c->nodes[1], PREFIX_STATE_TURN);
    evict_states(c, 2);
    for (int i = 0; i < 2; i++) prefix_state_replace(c->rig.p, c->nodes[i]);
    prefix_check(c->rig.p);
    assert_true(slot_of(c, c->nodes[0]) == KV_NO_BLOCK && slot_of(c, c->nodes[1]) != KV_NO_BLOCK);
    chain_attach(c, c->nodes[1], PREFIX_STATE_NEAR);
    write_blocks(c);
    assert_true(prefix_state_begin_write(c->rig.p, true, &info) && info.state == prefix_state_block(c->nodes[1]));
    prefix_state_written(c->rig.p, info.id);
}

/* --- anything in any order --- */

static uint32_t rnd(uint32_t n)
{
    static uint64_t seed = 5;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

/* The chain's node @i; NULL: it is not in the tree. */
static struct prefix_node *node(const struct chain *c, uint32_t i)
{
    struct prefix_node *n = NULL;
    uint32_t common;
    for (uint32_t k = 0; k <= i; k++) {
        n = prefix_child(c->rig.p, &c->rig.namespace, n, items_tokens(c->tokens + k * KV_BLOCK, KV_BLOCK), &common);
        if (!n || common < KV_BLOCK) return NULL;
    }
    return n;
}

/* Blocks of the chain are computed again, up to a random one. */
static void compute(struct chain *c)
{
    struct prefix_node *n = NULL, *next;
    for (uint32_t i = 0, end = 1 + rnd(CHAIN); i < end; i++) {
        if (n) prefix_ref(c->rig.p, n);
        if (fixture_add(&c->rig, n, 100 + (int)i, KV_BLOCK, 1, &next) < 0) fail();
        if (n) prefix_unref(c->rig.p, n);
        n = next;
    }
}

static void attach(struct chain *c, struct prefix_node *n)
{
    uint32_t block;
    if (kv_pool_take(c->pool, &block) < 0) return;
    if (n->block != KV_NO_BLOCK)
        prefix_state_attach(c->rig.p, n, block, rnd(2) ? PREFIX_STATE_TURN : PREFIX_STATE_NEAR);
    kv_pool_unref(c->pool, block);
}

static void lose(struct chain *c, bool states)
{
    bool lost[2 * CHAIN];
    for (uint32_t i = 0; i < 2 * CHAIN; i++) lost[i] = rnd(4) == 0;
    if (states)
        prefix_state_slots_lost(c->rig.p, lost);
    else
        prefix_host_lost(c->rig.p, lost);
}

static void write_one(struct chain *c, bool state)
{
    struct prefix *p = c->rig.p;
    struct prefix_info info;
    const bool fails = rnd(4) == 0, before = rnd(2);
    if (!(state ? prefix_state_begin_write(p, rnd(2), &info) : prefix_disk_begin_write(p, rnd(2), 0, &info))) return;
    if (before) prefix_evict(p, rnd(3), rnd(2) ? keep_blocks : NULL, NULL);
    prefix_check(p);
    if (state)
        (fails ? prefix_state_write_failed : prefix_state_written)(p, info.id);
    else
        (fails ? prefix_disk_write_failed : prefix_disk_written)(p, info.id);
}

static void test_random(void **state)
{
    struct chain *c = *state;
    struct prefix *p = c->rig.p;
    uint32_t most = 0;
    for (int i = 0; i < 20000; i++) {
        struct prefix_node *n = node(c, rnd(CHAIN));
        switch (rnd(12)) {
        case 0:
            compute(c);
            break;
        case 1:
            prefix_evict(p, rnd(4), rnd(3) ? keep_blocks : NULL, NULL);
            break;
        case 2:
            prefix_state_evict(p, rnd(3));
            break;
        case 3:
            lose(c, false);
            break;
        case 4:
            lose(c, true);
            break;
        case 5:
            write_one(c, false);
            break;
        case 6:
            write_one(c, true);
            break;
        case 7:
            if (n) prefix_state_use(p, n);
            break;
        case 8:
            if (n) rnd(2) ? prefix_disk_removed(p, fixture_id(n)) : prefix_state_removed(p, fixture_id(n));
            break;
        case 9:
            if (n) rnd(3) ? prefix_state_replace(p, n) : prefix_state_thin(p, n, rnd(4));
            break;
        default:
            if (n) attach(c, n);
            break;
        }
        prefix_check(p);
        for (uint32_t k = 0; k < CHAIN; k++)
            if ((n = node(c, k))) slot_of(c, n);
        if (states_host(c, 1) > most) most = (uint32_t)states_host(c, 1);
    }
    assert_true(most == SLOTS && c->copies > 500);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, chain_setup_host, chain_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_alone), TEST(test_with_its_node),       TEST(test_full),  TEST(test_no_slot),
        TEST(test_disk),  TEST(test_while_it_is_written), TEST(test_kinds), TEST(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Recurrent states in the index: which hits end with one, and which are written to disk. */
#include "daemon/cache/prefix/prefix-node.h"
#include "tests/cache/prefix/state-chain.h"
#include <string.h>

static struct prefix_match hit(const struct chain *c, uint32_t n)
{
    struct prefix_match m = fixture_find(&c->rig, c->tokens, n);
    assert_true(m.n ? m.node == c->nodes[m.n / KV_BLOCK - 1] : !m.node);
    assert_true(!m.partial && !m.n_partial && !m.state == !m.n_disk);
    return m;
}

static void test_hits(void **state)
{
    struct chain *c = *state;
    assert_int_equal(hit(c, CHAIN * KV_BLOCK).n, 0);
    assert_int_equal(hit(c, CHAIN * KV_BLOCK).miss, PREFIX_EVICTED);
    chain_attach(c, c->nodes[2], PREFIX_STATE_NEAR);
    chain_attach(c, c->nodes[5], PREFIX_STATE_TURN);
    assert_int_equal(hit(c, 8 * KV_BLOCK).n, 6 * KV_BLOCK);
    assert_int_equal(hit(c, 6 * KV_BLOCK).n, 6 * KV_BLOCK);
    assert_int_equal(hit(c, 6 * KV_BLOCK - 1).n, 3 * KV_BLOCK);
    assert_int_equal(hit(c, 3 * KV_BLOCK + 5).n, 3 * KV_BLOCK);
    assert_int_equal(hit(c, 3 * KV_BLOCK - 1).n, 0);
    int32_t other[CHAIN * KV_BLOCK];
    memcpy(other, c->tokens, sizeof(other));
    other[4 * KV_BLOCK] = 7; /* other tokens after four blocks */
    assert_int_equal(fixture_find(&c->rig, other, CHAIN * KV_BLOCK).n, 3 * KV_BLOCK);
    uint32_t block;
    assert_int_equal(kv_pool_take(c->pool, &block), 0);
    assert_false(prefix_state_attach(c->rig.p, c->nodes[5], block, PREFIX_STATE_NEAR)); /* it has one */
    kv_pool_unref(c->pool, block);
    prefix_state_replace(c->rig.p, c->nodes[5]); /* a turn stays */
    assert_int_equal(hit(c, 8 * KV_BLOCK).n, 6 * KV_BLOCK);
    prefix_state_drop(c->rig.p, c->nodes[5]);
    prefix_state_drop(c->rig.p, c->nodes[5]);
    prefix_check(c->rig.p);
    assert_int_equal(hit(c, 8 * KV_BLOCK).n, 3 * KV_BLOCK);
}

/* The state leaves memory with its node. */
static void test_node_leaves(void **state)
{
    struct chain *c = *state;
    chain_attach(c, c->nodes[7], PREFIX_STATE_TURN);
    chain_attach(c, c->nodes[6], PREFIX_STATE_TURN);
    assert_int_equal(prefix_evict(c->rig.p, 1, NULL, NULL), 1);
    prefix_check(c->rig.p);
    assert_int_equal(chain_states(c), 1);
    assert_int_equal(c->evicted, 0); /* the node has no file */
    assert_int_equal(kv_pool_free_blocks(c->pool), STATES - 1);
}

/* Writes the first @n nodes of the chain to disk. */
static void write_nodes(struct chain *c, int n)
{
    struct prefix_info info;
    for (int i = 0; i < n; i++) {
        assert_true(prefix_disk_begin_write(c->rig.p, false, 0, &info));
        prefix_disk_written(c->rig.p, info.id);
    }

    prefix_check(c->rig.p);
}

static void test_write(void **state)
{
    struct chain *c = *state;
    struct prefix_info info, other;
    bool orphan;
    chain_attach(c, c->nodes[1], PREFIX_STATE_NEAR);
    chain_attach(c, c->nodes[2], PREFIX_STATE_TURN);
    assert_false(prefix_state_begin_write(c->rig.p, false, &info)); /* no KV on disk */
    write_nodes(c, 4);
    assert_true(prefix_state_begin_write(c->rig.p, false, &info));
    assert_true(prefix_id_equal(info.id, fixture_id(c->nodes[2])) && info.state == prefix_state_block(c->nodes[2]));
    assert_false(prefix_state_begin_write(c->rig.p, true, &other)); /* the other is not worth a file */
    prefix_state_write_failed(c->rig.p, info.id);
    prefix_check(c->rig.p);
    assert_true(prefix_state_begin_write(c->rig.p, true, &info));
    prefix_state_written(c->rig.p, info.id);
    prefix_check(c->rig.p);
    assert_true(prefix_state_on_disk(c->nodes[2]));
    assert_int_equal(prefix_state_evict(c->rig.p, 9), 2);
    assert_int_equal(c->evicted, 0); /* it has a file */
    assert_int_equal(hit(c, CHAIN * KV_BLOCK).n, 0);
    assert_true(hit(c, CHAIN * KV_BLOCK).state == c->nodes[2]);
    assert_int_equal(hit(c, CHAIN * KV_BLOCK).n_disk, 3 * KV_BLOCK);
    chain_attach(c, c->nodes[0], PREFIX_STATE_NEAR);
    assert_true(hit(c, CHAIN * KV_BLOCK).n == KV_BLOCK && hit(c, CHAIN * KV_BLOCK).n_disk == 2 * KV_BLOCK);
    assert_true(prefix_state_victim(c->rig.p, &info, &orphan) && !orphan);
    prefix_state_removed(c->rig.p, info.id);
    prefix_check(c->rig.p);
    assert_false(hit(c, CHAIN * KV_BLOCK).state);
    assert_false(prefix_state_victim(c->rig.p, &info, &orphan));
}

/* An evicted state is offered to the disk; one whose node was removed is the first file to be removed. */
static void test_orphan(void **state)
{
    struct chain *c = *state;
    struct prefix_info info;
    bool orphan;
    c->write = true;
    chain_attach(c, c->nodes[7], PREFIX_STATE_TURN);
    chain_attach(c, c->nodes[0], PREFIX_STATE_TURN);
    write_nodes(c, 8);
    assert_int_equal(prefix_evict(c->rig.p, 1, NULL, NULL), 1); /* node 7, with its state */
    assert_true(c->evicted == 1 && prefix_id_equal(c->left.id, fixture_id(c->nodes[7])));
    prefix_check(c->rig.p);
    prefix_state_written(c->rig.p, c->left.id);
    assert_true(hit(c, CHAIN * KV_BLOCK).state == c->nodes[7]);
    assert_int_equal(prefix_state_evict(c->rig.p, 9), 1);
    prefix_state_written(c->rig.p, c->left.id);
    prefix_disk_removed(c->rig.p, fixture_id(c->nodes[7])); /* its KV */
    prefix_check(c->rig.p);
    assert_true(hit(c, CHAIN * KV_BLOCK).state == c->nodes[0]);
    assert_true(prefix_state_victim(c->rig.p, &info, &orphan));
    assert_true(orphan && prefix_id_equal(info.id, fixture_id(c->nodes[7])));
    prefix_state_removed(c->rig.p, info.id); /* the node is freed */
    prefix_check(c->rig.p);
    assert_true(prefix_state_victim(c->rig.p, &info, &orphan) && !orphan);
}

/* A state that leaves alone is offered to the disk while its node's KV is in memory only. */
static void test_leaves_alone(void **state)
{
    struct chain *c = *state;
    struct prefix_info info;
    bool orphan;
    c->write = true;
    chain_attach(c, c->nodes[7], PREFIX_STATE_TURN);
    assert_int_equal(prefix_state_evict(c->rig.p, 1), 1);
    assert_true(c->evicted == 1 && prefix_id_equal(c->left.id, fixture_id(c->nodes[7])));
    prefix_state_written(c->rig.p, c->left.id);
    prefix_check(c->rig.p);
    assert_true(hit(c, CHAIN * KV_BLOCK).state == c->nodes[7]);
    assert_true(prefix_state_victim(c->rig.p, &info, &orphan) && !orphan);
    assert_int_equal(prefix_evict(c->rig.p, 1, NULL, NULL), 1); /* its node has no file */
    prefix_check(c->rig.p);
    assert_false(hit(c, CHAIN * KV_BLOCK).state);
    assert_true(prefix_state_victim(c->rig.p, &info, &orphan) && orphan);
    prefix_state_removed(c->rig.p, info.id);
    prefix_check(c->rig.p);
}

static void tell_all(struct prefix *p, struct prefix_id id)
{
    prefix_state_written(p, id);
    prefix_state_write_failed(p, id);
    prefix_state_removed(p, id);
    prefix_check(p);
}

/* What is told of nodes that have left meanwhile, that have no state, or whose state has no file, changes nothing. */
static void test_told_late(void **state)
{
    struct chain *c = *state;
    struct prefix_id id = fixture_id(c->nodes[3]);
    struct prefix_stats before, after;
    struct prefix_node *partial;
    int32_t few[5] = {1, 1, 1, 1, 1};
    assert_int_equal(fixture_add_tokens(&c->rig, NULL, few, 5, 1, &partial), 0);
    prefix_stats_get(c->rig.p, (uid_t)-1, &before);
    prefix_state_removed(c->rig.p, id);
    tell_all(c->rig.p, fixture_id(partial));
    tell_all(c->rig.p, (struct prefix_id){id.high, id.low + 1000});
    tell_all(c->rig.p, (struct prefix_id){id.high + 1, id.low});
    prefix_stats_get(c->rig.p, (uid_t)-1, &after);
    assert_memory_equal(&before, &after, sizeof(after));
}

static void test_restart(void **state)
{
    struct chain *c = *state;
    struct prefix_info info;
    prefix_info(c->nodes[3], &info);
    info.id.high++;
    assert_int_equal(prefix_state_disk_add(c->rig.p, &info), 1); /* no such node */
    info.id.high--;
    info.tokens[31]++;
    assert_int_equal(prefix_state_disk_add(c->rig.p, &info), 1); /* other tokens */
    info.tokens[31]--;
    info.parent.low++;
    assert_int_equal(prefix_state_disk_add(c->rig.p, &info), 1);
    info.parent.low--;
    info.parent.high++;
    assert_int_equal(prefix_state_disk_add(c->rig.p, &info), 1);
    info.parent.high--;
    info.n--;
    assert_int_equal(prefix_state_disk_add(c->rig.p, &info), 1);
    info.n++;
    info.namespace.bytes[0]++;
    assert_int_equal(prefix_state_disk_add(c->rig.p, &info), 1);
    info.namespace.bytes[0]--;
    assert_int_equal(prefix_state_disk_add(c->rig.p, &info), 0);
    assert_int_equal(prefix_state_disk_add(c->rig.p, &info), 1); /* it has one now */
    prefix_check(c->rig.p);
    assert_true(hit(c, CHAIN * KV_BLOCK).state == c->nodes[3]);
    int32_t few[5] = {1, 1, 1, 1, 1};
    struct prefix_node *partial;
    assert_int_equal(fixture_add_tokens(&c->rig, NULL, few, 5, 1, &partial), 0);
    prefix_info(partial, &info);
    assert_int_equal(prefix_state_disk_add(c->rig.p, &info), 1); /* not a full node */
    assert_false(prefix_state_on_disk(partial));
}

/* Random operations; what a lookup finds is compared with a search of all nodes. */
static void test_random(void **state)
{
    struct chain *c = *state;
    struct prefix_node *nodes[CHAIN * 2];
    int32_t ids[2][CHAIN * KV_BLOCK];
    uint32_t rnd = 1;
    memcpy(ids[0], c->tokens, sizeof(c->tokens));
    memcpy(ids[1], c->tokens, sizeof(c->tokens));
    memcpy(nodes, c->nodes, sizeof(c->nodes));
    for (int i = 0; i < CHAIN; i++) {
        nodes[CHAIN + i] = c->nodes[i];
        if (i < 3) continue; /* the second chain branches off */
        fixture_fill(ids[1] + i * KV_BLOCK, KV_BLOCK, 200 + i);
        assert_int_equal(fixture_add(&c->rig, nodes[CHAIN + i - 1], 200 + i, KV_BLOCK, 2, &nodes[CHAIN + i]), 0);
    }
    for (int step = 0; step < 3000; step++) {
        rnd = rnd * 1664525 + 1013904223;
        uint32_t what = rnd >> 8 & 7, i = rnd >> 16 & (2 * CHAIN - 1);
        struct prefix_info info;
        bool orphan;
        if (what < 3 && prefix_state_block(nodes[i]) == KV_NO_BLOCK) {
            if (!kv_pool_free_blocks(c->pool)) assert_int_equal(prefix_state_evict(c->rig.p, 1), 1);
            chain_attach(c, nodes[i], what ? PREFIX_STATE_TURN : PREFIX_STATE_NEAR);
        } else if (what == 3) {
            prefix_state_drop(c->rig.p, nodes[i]);
        } else if (what == 4) {
            prefix_state_use(c->rig.p, nodes[i]);
        } else if (what == 5 && (rnd >> 24) % 4 == 0) {
            prefix_state_thin(c->rig.p, nodes[i], 1 + (rnd >> 26) % 4);
        } else if (what == 6) {
            if (prefix_disk_begin_write(c->rig.p, false, 0, &info)) prefix_disk_written(c->rig.p, info.id);
            if (prefix_state_begin_write(c->rig.p, i & 1, &info)) prefix_state_written(c->rig.p, info.id);
        } else if (prefix_state_victim(c->rig.p, &info, &orphan) && what == 7 && i < 4) {
            assert_false(orphan);
            prefix_state_removed(c->rig.p, info.id);
        }
        prefix_check(c->rig.p);
        for (uint32_t k = 0; k < 2; k++) {
            struct prefix_match m = fixture_find(&c->rig, ids[k], CHAIN * KV_BLOCK);
            uint32_t memory = 0, all = 0;
            for (uint32_t b = 0; b < CHAIN; b++) {
                const struct prefix_node *n = nodes[k * CHAIN + b];
                if (prefix_state_block(n) != KV_NO_BLOCK) memory = (b + 1) * KV_BLOCK;
                if (prefix_state_block(n) != KV_NO_BLOCK || prefix_state_on_disk(n)) all = (b + 1) * KV_BLOCK;
            }
            assert_int_equal(m.n, memory);
            assert_int_equal(m.n + m.n_disk, all);
        }
    }
}

/* A node that has no state, and one that cannot have any: nothing happens. */
static void test_without_state(void **state)
{
    struct chain *c = *state;
    struct prefix_node *partial;
    assert_int_equal(fixture_add(&c->rig, NULL, 5, 7, 1, &partial), 0);
    const uint64_t clock = c->rig.p->clock;
    struct prefix_node *const nodes[] = {partial, c->nodes[3]};
    for (int i = 0; i < 2; i++) {
        prefix_state_use(c->rig.p, nodes[i]);
        prefix_state_replace(c->rig.p, nodes[i]);
        prefix_state_drop(c->rig.p, nodes[i]);
        prefix_state_written(c->rig.p, fixture_id(partial));
        prefix_state_write_failed(c->rig.p, fixture_id(partial));
        prefix_state_removed(c->rig.p, fixture_id(nodes[i]));
        prefix_check(c->rig.p);
    }
    assert_int_equal(c->rig.p->clock, clock);
}

/* A state before the end of a prompt is replaced by a later one, the end of a turn is not. */
static void test_replace(void **state)
{
    struct chain *c = *state;
    chain_attach(c, c->nodes[1], PREFIX_STATE_NEAR);
    chain_attach(c, c->nodes[2], PREFIX_STATE_TURN);
    prefix_state_replace(c->rig.p, c->nodes[1]);
    prefix_state_replace(c->rig.p, c->nodes[2]);
    assert_int_equal(prefix_state_block(c->nodes[1]), KV_NO_BLOCK);
    assert_int_not_equal(prefix_state_block(c->nodes[2]), KV_NO_BLOCK);
    prefix_check(c->rig.p);
}

static void test_all_items_match(void **state)
{
    struct chain *c = *state;
    chain_attach(c, c->nodes[3], PREFIX_STATE_TURN);
    assert_int_equal(hit(c, 4 * KV_BLOCK).miss, PREFIX_ALL);
    assert_int_equal(hit(c, 4 * KV_BLOCK).n, 4 * KV_BLOCK);
    assert_int_equal(hit(c, 5 * KV_BLOCK).miss, PREFIX_EVICTED); /* block 5 is in memory without a state */
    int32_t other[5 * KV_BLOCK];
    memcpy(other, c->tokens, sizeof(other));
    fixture_fill(other + 4 * KV_BLOCK, KV_BLOCK, 7);
    assert_int_equal(fixture_find(&c->rig, other, 5 * KV_BLOCK).miss, PREFIX_NEW);
}

/* The least or the most recently used state is written first. */
static void test_order_of_writes(void **state)
{
    struct chain *c = *state;
    struct prefix_info info;
    chain_attach(c, c->nodes[2], PREFIX_STATE_TURN);
    chain_attach(c, c->nodes[1], PREFIX_STATE_TURN);
    chain_attach(c, c->nodes[3], PREFIX_STATE_TURN);
    write_nodes(c, 5);
    assert_true(prefix_state_begin_write(c->rig.p, true, &info));
    assert_true(prefix_id_equal(info.id, fixture_id(c->nodes[3])));
    assert_true(prefix_state_begin_write(c->rig.p, false, &info));
    assert_true(prefix_id_equal(info.id, fixture_id(c->nodes[2])));
    prefix_state_written(c->rig.p, info.id);
    prefix_state_written(c->rig.p, info.id); /* it is one file */
    prefix_check(c->rig.p);
    struct prefix_stats s;
    prefix_stats_get(c->rig.p, 1, &s);
    assert_int_equal(s.states_disk, 1);
}

/* The end of a turn stays longer on a chain than a state beside it. */
static void test_thin_prefers_turns(void **state)
{
    struct chain *c = *state;
    for (int turn = 0; turn < 2; turn++) {
        chain_attach(c, c->nodes[0], turn ? PREFIX_STATE_TURN : PREFIX_STATE_NEAR);
        chain_attach(c, c->nodes[1], PREFIX_STATE_NEAR);
        chain_attach(c, c->nodes[2], PREFIX_STATE_NEAR);
        prefix_state_thin(c->rig.p, c->nodes[2], 2);
        assert_true((prefix_state_block(c->nodes[0]) != KV_NO_BLOCK) == turn);
        assert_true((prefix_state_block(c->nodes[1]) != KV_NO_BLOCK) == !turn);
        assert_int_not_equal(prefix_state_block(c->nodes[2]), KV_NO_BLOCK);
        for (int i = 0; i < 3; i++) prefix_state_drop(c->rig.p, c->nodes[i]);
    }
}

/* A chain with more states than are looked at: the nearest to its end are thinned. */
static void test_thin_long_chain(void **state)
{
    enum { LONG = PREFIX_CHAIN_STATES + 6 };
    struct fixture rig;
    struct kv_pool *pool;
    struct prefix_node *nodes[LONG];
    uint32_t block, left = 0;
    fixture_init(&rig, LONG);
    assert_int_equal(kv_pool_new(&pool, LONG), 0);
    prefix_add_states(rig.p, pool, NULL, NULL);
    for (int i = 0; i < LONG; i++) {
        assert_int_equal(fixture_add(&rig, i ? nodes[i - 1] : NULL, i, KV_BLOCK, 1, &nodes[i]), 0);
        assert_int_equal(kv_pool_take(pool, &block), 0);
        assert_true(prefix_state_attach(rig.p, nodes[i], block, PREFIX_STATE_TURN));
        kv_pool_unref(pool, block);
    }
    prefix_state_thin(rig.p, nodes[LONG - 1], 8);
    prefix_check(rig.p);
    for (int i = 0; i < LONG; i++) left += prefix_state_block(nodes[i]) != KV_NO_BLOCK;
    assert_int_equal(left, 8 + 6);
    for (int i = 0; i < 6; i++) assert_int_not_equal(prefix_state_block(nodes[i]), KV_NO_BLOCK);
    assert_int_not_equal(prefix_state_block(nodes[LONG - 1]), KV_NO_BLOCK);
    assert_int_equal(prefix_state_evict(rig.p, 2), 2); /* without anybody to tell */
    fixture_fini(&rig);
    kv_pool_free(pool);
}

/* The state of a node that is being written is worth a file, too: the node's KV stays. */
static void test_leaves_with_a_node_being_written(void **state)
{
    struct chain *c = *state;
    struct prefix_info info;
    write_nodes(c, CHAIN - 1);
    chain_attach(c, c->nodes[CHAIN - 1], PREFIX_STATE_TURN);
    assert_true(prefix_disk_begin_write(c->rig.p, false, 0, &info));
    assert_true(prefix_id_equal(info.id, fixture_id(c->nodes[CHAIN - 1])));
    c->write = true;
    assert_int_equal(prefix_evict(c->rig.p, 1, NULL, NULL), 1);
    assert_int_equal(c->evicted, 1);
    prefix_state_written(c->rig.p, info.id);
    prefix_disk_written(c->rig.p, info.id);
    prefix_check(c->rig.p);
    assert_true(prefix_state_on_disk(c->nodes[CHAIN - 1]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hits, chain_setup, chain_teardown),
        cmocka_unit_test_setup_teardown(test_node_leaves, chain_setup, chain_teardown),
        cmocka_unit_test_setup_teardown(test_write, chain_setup, chain_teardown),
        cmocka_unit_test_setup_teardown(test_orphan, chain_setup, chain_teardown),
        cmocka_unit_test_setup_teardown(test_leaves_alone, chain_setup, chain_teardown),
        cmocka_unit_test_setup_teardown(test_told_late, chain_setup, chain_teardown),
        cmocka_unit_test_setup_teardown(test_restart, chain_setup, chain_teardown),
        cmocka_unit_test_setup_teardown(test_random, chain_setup, chain_teardown),
        cmocka_unit_test_setup_teardown(test_without_state, chain_setup, chain_teardown),
        cmocka_unit_test_setup_teardown(test_replace, chain_setup, chain_teardown),
        cmocka_unit_test_setup_teardown(test_all_items_match, chain_setup, chain_teardown),
        cmocka_unit_test_setup_teardown(test_order_of_writes, chain_setup, chain_teardown),
        cmocka_unit_test_setup_teardown(test_thin_prefers_turns, chain_setup, chain_teardown),
        cmocka_unit_test_setup_teardown(test_leaves_with_a_node_being_written, chain_setup, chain_teardown),
        cmocka_unit_test(test_thin_long_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

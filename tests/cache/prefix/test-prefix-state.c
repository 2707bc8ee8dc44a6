/* SPDX-License-Identifier: MIT */
/* Recurrent states in the index: which hits end with one, which are kept and evicted, and which are written to disk. */
#include "daemon/cache/prefix/prefix-state.h"
#include "tests/cache/prefix/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define CHAIN  8
#define STATES 6

struct chain {
    struct fixture rig;
    struct kv_pool *pool; /* of states */
    struct prefix_node *nodes[CHAIN];
    int32_t tokens[CHAIN * KV_BLOCK];
    struct prefix_info left; /* of the state that was evicted last */
    unsigned evicted;
    bool write;
};

static bool evicting(void *ctx, const struct prefix_info *info)
{
    struct chain *c = ctx;
    c->left = *info;
    c->evicted++;
    assert_int_not_equal(info->state, KV_NO_BLOCK);
    return c->write;
}

static int setup(void **state)
{
    static struct chain c;
    c = (struct chain){0};
    fixture_init(&c.rig, 4 * CHAIN);
    assert_int_equal(kv_pool_new(&c.pool, STATES), 0);
    prefix_add_states(c.rig.p, c.pool, evicting, &c);
    for (int i = 0; i < CHAIN; i++) {
        fixture_fill(c.tokens + i * KV_BLOCK, KV_BLOCK, 100 + i);
        assert_int_equal(fixture_add(&c.rig, i ? c.nodes[i - 1] : NULL, 100 + i, KV_BLOCK, 1, &c.nodes[i]), 0);
        assert_int_equal(prefix_state_block(c.nodes[i]), KV_NO_BLOCK);
    }
    prefix_check(c.rig.p);
    *state = &c;
    return 0;
}

static int teardown(void **state)
{
    struct chain *c = *state;
    fixture_fini(&c->rig);
    kv_pool_free(c->pool); /* asserts that all blocks are free */
    return 0;
}

static void attach(struct chain *c, struct prefix_node *n, enum prefix_state_kind kind)
{
    uint32_t block;
    assert_int_equal(kv_pool_take(c->pool, &block), 0);
    assert_true(prefix_state_attach(c->rig.p, n, block, kind));
    kv_pool_unref(c->pool, block);
    assert_int_equal(prefix_state_block(n), block);
    prefix_check(c->rig.p);
}

static struct prefix_match hit(const struct chain *c, uint32_t n)
{
    struct prefix_match m = fixture_find(&c->rig, c->tokens, n);
    assert_true(m.n ? m.node == c->nodes[m.n / KV_BLOCK - 1] : !m.node);
    assert_true(!m.partial && !m.n_partial && !m.state == !m.n_disk);
    return m;
}

static uint32_t states(const struct chain *c)
{
    struct prefix_stats s;
    prefix_stats_get(c->rig.p, 1, &s);
    return (uint32_t)s.states_memory;
}

static void test_hits(void **state)
{
    struct chain *c = *state;
    assert_int_equal(hit(c, CHAIN * KV_BLOCK).n, 0);
    assert_int_equal(hit(c, CHAIN * KV_BLOCK).miss, PREFIX_EVICTED);
    attach(c, c->nodes[2], PREFIX_STATE_NEAR);
    attach(c, c->nodes[5], PREFIX_STATE_TURN);
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
    attach(c, c->nodes[7], PREFIX_STATE_TURN);
    attach(c, c->nodes[6], PREFIX_STATE_TURN);
    assert_int_equal(prefix_evict(c->rig.p, 1, NULL, NULL), 1);
    prefix_check(c->rig.p);
    assert_int_equal(states(c), 1);
    assert_int_equal(c->evicted, 0); /* the node has no file */
    assert_int_equal(kv_pool_free_blocks(c->pool), STATES - 1);
}

/* Which of the states at @at (a list that ends with 0) is removed first? */
static uint32_t least(const uint32_t *at, uint32_t turns)
{
    uint32_t n = 0;
    bool turn[16];
    while (at[n]) turn[n] = turns >> n & 1, n++;
    return prefix_state_least(at, turn, n);
}

static void test_least(void **state)
{
    (void)state;
    assert_int_equal(least((const uint32_t[]){1, 100, 0}, 0), 0);
    assert_int_equal(least((const uint32_t[]){50, 99, 100, 0}, 0), 0);
    assert_int_equal(least((const uint32_t[]){128, 224, 248, 254, 256, 0}, 0), 0);
    assert_int_equal(least((const uint32_t[]){128, 224, 247, 248, 254, 256, 0}, 0), 3); /* 247 and 248 */
    assert_int_equal(least((const uint32_t[]){128, 224, 247, 248, 254, 256, 0}, 8), 2); /* a turn */
    /* The ends of old turns go before those of the last one. */
    assert_int_equal(least((const uint32_t[]){25, 50, 75, 95, 100, 0}, 31), 0);
    assert_int_equal(least((const uint32_t[]){25, 75, 80, 95, 100, 0}, 31), 1);
}

static void test_thin(void **state)
{
    struct chain *c = *state;
    for (int i = 2; i < 8; i++) attach(c, c->nodes[i], i == 6 ? PREFIX_STATE_TURN : PREFIX_STATE_NEAR);
    prefix_state_thin(c->rig.p, c->nodes[7], 6);
    assert_int_equal(states(c), 6);
    prefix_state_thin(c->rig.p, c->nodes[7], 3);
    prefix_check(c->rig.p);
    assert_int_equal(states(c), 3);
    assert_true(prefix_state_block(c->nodes[7]) != KV_NO_BLOCK && prefix_state_block(c->nodes[6]) != KV_NO_BLOCK);
    prefix_state_thin(c->rig.p, c->nodes[7], 0);
    assert_int_equal(states(c), 1);
    assert_true(prefix_state_block(c->nodes[7]) != KV_NO_BLOCK);
    assert_int_equal(kv_pool_free_blocks(c->pool), STATES - 1);
}

/* Of the states of a uid, the one that saves the fewest tokens for its age goes first; of the uids, the one with most.
 */
static void test_evict(void **state)
{
    struct chain *c = *state;
    struct prefix_node *x, *y;
    attach(c, c->nodes[5], PREFIX_STATE_NEAR);
    attach(c, c->nodes[6], PREFIX_STATE_NEAR);
    attach(c, c->nodes[7], PREFIX_STATE_NEAR);
    assert_int_equal(fixture_add(&c->rig, NULL, 1, KV_BLOCK, 2, &x), 0);
    assert_int_equal(fixture_add(&c->rig, NULL, 2, KV_BLOCK, 2, &y), 0);
    attach(c, x, PREFIX_STATE_NEAR);
    attach(c, y, PREFIX_STATE_NEAR);
    assert_int_equal(prefix_state_evict(c->rig.p, 1), 1);
    assert_int_equal(prefix_state_block(c->nodes[6]),
                     KV_NO_BLOCK);                        /* one block after another state, and older than 7 */
    assert_int_equal(prefix_state_evict(c->rig.p, 1), 1); /* both uids have two; 5 and 7 save more */
    prefix_check(c->rig.p);
    prefix_state_use(c->rig.p, c->nodes[5]);
    assert_int_equal(prefix_state_evict(c->rig.p, 9), 3);
    assert_int_equal(prefix_state_evict(c->rig.p, 9), 0);
    assert_int_equal(kv_pool_free_blocks(c->pool), STATES);
    prefix_check(c->rig.p);
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
    attach(c, c->nodes[1], PREFIX_STATE_NEAR);
    attach(c, c->nodes[2], PREFIX_STATE_TURN);
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
    attach(c, c->nodes[0], PREFIX_STATE_NEAR);
    assert_true(hit(c, CHAIN * KV_BLOCK).n == KV_BLOCK && hit(c, CHAIN * KV_BLOCK).n_disk == 2 * KV_BLOCK);
    assert_true(prefix_state_victim(c->rig.p, &info, &orphan) && !orphan);
    prefix_state_removed(c->rig.p, info.id);
    prefix_check(c->rig.p);
    assert_false(hit(c, CHAIN * KV_BLOCK).state);
    assert_false(prefix_state_victim(c->rig.p, &info, &orphan));
}

/* An evicted state is offered to the disk; one whose node has gone is the first file to be removed. */
static void test_orphan(void **state)
{
    struct chain *c = *state;
    struct prefix_info info;
    bool orphan;
    c->write = true;
    attach(c, c->nodes[7], PREFIX_STATE_TURN);
    attach(c, c->nodes[0], PREFIX_STATE_TURN);
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
            attach(c, nodes[i], what ? PREFIX_STATE_TURN : PREFIX_STATE_NEAR);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_node_leaves, setup, teardown),
        cmocka_unit_test(test_least),
        cmocka_unit_test_setup_teardown(test_thin, setup, teardown),
        cmocka_unit_test_setup_teardown(test_evict, setup, teardown),
        cmocka_unit_test_setup_teardown(test_write, setup, teardown),
        cmocka_unit_test_setup_teardown(test_orphan, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_random, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

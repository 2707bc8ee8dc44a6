/* SPDX-License-Identifier: MIT */
/* prefix-state.c: which recurrent states are removed from a chain, and which are evicted. */
#include "tests/cache/prefix/state-chain.h"

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
    for (int i = 2; i < 8; i++) chain_attach(c, c->nodes[i], i == 6 ? PREFIX_STATE_TURN : PREFIX_STATE_NEAR);
    prefix_state_thin(c->rig.p, c->nodes[7], 6);
    assert_int_equal(chain_states(c), 6);
    prefix_state_thin(c->rig.p, c->nodes[5], 4); /* nodes 2 … 5 have no more; those behind do not count */
    assert_int_equal(chain_states(c), 6);
    const int order[] = {3, 4, 2}; /* the ratios of their neighbours' distances: 6/4, then 6/3, then 9/3 */
    for (int i = 0; i < 3; i++) {
        prefix_state_thin(c->rig.p, c->nodes[7], 5 - (uint32_t)i);
        assert_int_equal(chain_states(c), 5 - i);
        assert_int_equal(prefix_state_block(c->nodes[order[i]]), KV_NO_BLOCK);
    }
    prefix_check(c->rig.p);
    assert_int_equal(chain_states(c), 3);
    assert_true(prefix_state_block(c->nodes[7]) != KV_NO_BLOCK && prefix_state_block(c->nodes[6]) != KV_NO_BLOCK);
    prefix_state_thin(c->rig.p, c->nodes[7], 0);
    assert_int_equal(chain_states(c), 1);
    assert_true(prefix_state_block(c->nodes[7]) != KV_NO_BLOCK);
    assert_int_equal(kv_pool_free_blocks(c->pool), STATES - 1);
}

/* Only the chain's own states are removed, not those of a branch. */
static void test_thin_branch(void **state)
{
    struct chain *c = *state;
    struct prefix_node *branch;
    assert_int_equal(fixture_add(&c->rig, c->nodes[3], 50, KV_BLOCK, 1, &branch), 0);
    for (int i = 2; i < 6; i++) chain_attach(c, c->nodes[i], PREFIX_STATE_NEAR);
    chain_attach(c, branch, PREFIX_STATE_NEAR);
    prefix_state_thin(c->rig.p, branch, 1); /* its ancestors are nodes 0 … 3 */
    prefix_check(c->rig.p);
    assert_int_equal(chain_states(c), 3);
    assert_true(prefix_state_block(c->nodes[4]) != KV_NO_BLOCK && prefix_state_block(c->nodes[5]) != KV_NO_BLOCK);
    assert_int_not_equal(prefix_state_block(branch), KV_NO_BLOCK);
}

/* Of the states of a uid, the one that saves the fewest tokens for its age goes first; of the uids, the one with most.
 */
static void test_evict(void **state)
{
    struct chain *c = *state;
    struct prefix_node *x, *y;
    chain_attach(c, c->nodes[5], PREFIX_STATE_NEAR);
    chain_attach(c, c->nodes[6], PREFIX_STATE_NEAR);
    chain_attach(c, c->nodes[7], PREFIX_STATE_NEAR);
    assert_int_equal(fixture_add(&c->rig, NULL, 1, KV_BLOCK, 2, &x), 0);
    assert_int_equal(fixture_add(&c->rig, NULL, 2, KV_BLOCK, 2, &y), 0);
    chain_attach(c, x, PREFIX_STATE_NEAR);
    chain_attach(c, y, PREFIX_STATE_NEAR);
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

/* Eight blocks against one: the ages decide, once they differ by more than eight. */
static void test_evict_worth(void **state)
{
    struct chain *c = *state;
    struct prefix_node *x = chain_alone(c, 1, 1);
    for (int uses = 5; uses <= 12; uses += 7) {
        struct prefix_node *first = uses == 5 ? x : c->nodes[7];
        chain_attach(c, c->nodes[7], PREFIX_STATE_NEAR);
        chain_attach(c, x, PREFIX_STATE_NEAR);
        for (int i = 0; i < uses; i++) prefix_state_use(c->rig.p, x);
        assert_int_equal(prefix_state_evict(c->rig.p, 1), 1);
        assert_int_equal(prefix_state_block(first), KV_NO_BLOCK);
        assert_int_equal(chain_states(c), 1);
        assert_int_equal(prefix_state_evict(c->rig.p, 9), 1);
    }
}

/* The end of a turn stays longer than a state near it, though not for ever. */
static void test_evict_turn(void **state)
{
    struct chain *c = *state;
    struct prefix_node *turn = chain_alone(c, 1, 1), *near = chain_alone(c, 2, 1);
    for (int uses = 0; uses <= 8; uses += 8) {
        struct prefix_node *first = uses ? turn : near;
        chain_attach(c, turn, PREFIX_STATE_TURN);
        chain_attach(c, near, PREFIX_STATE_NEAR);
        for (int i = 0; i < uses; i++) prefix_state_use(c->rig.p, near);
        assert_int_equal(prefix_state_evict(c->rig.p, 1), 1);
        assert_int_equal(prefix_state_block(first), KV_NO_BLOCK);
        assert_int_equal(prefix_state_evict(c->rig.p, 9), 1);
    }
}

/* What can be read again goes before what cannot, though it was used later. */
static void test_evict_on_disk(void **state)
{
    struct chain *c = *state;
    struct prefix_node *filed = chain_alone(c, 1, 1), *only = chain_alone(c, 2, 1);
    struct prefix_info info;
    chain_attach(c, filed, PREFIX_STATE_TURN);
    while (prefix_disk_begin_write(c->rig.p, false, 0, &info)) prefix_disk_written(c->rig.p, info.id);
    assert_true(prefix_state_begin_write(c->rig.p, false, &info));
    prefix_state_written(c->rig.p, info.id);
    chain_attach(c, only, PREFIX_STATE_TURN);
    prefix_state_use(c->rig.p, filed);
    assert_int_equal(prefix_state_evict(c->rig.p, 1), 1);
    assert_true(prefix_state_block(filed) == KV_NO_BLOCK && prefix_state_on_disk(filed));
    assert_int_not_equal(prefix_state_block(only), KV_NO_BLOCK);
}

/* A state whose block a sequence holds stays as long as there are others: its block would not become free. */
static void test_evict_held(void **state)
{
    struct chain *c = *state;
    struct prefix_node *nodes[4];
    for (int i = 0; i < 4; i++) {
        nodes[i] = chain_alone(c, 1 + i, 1);
        chain_attach(c, nodes[i], PREFIX_STATE_NEAR);
    }
    const uint32_t held = prefix_state_block(nodes[0]); /* of least worth */
    kv_pool_ref(c->pool, held);
    for (uint32_t i = 1; i < 4; i++) {
        assert_int_equal(prefix_state_evict(c->rig.p, 1), 1);
        assert_int_equal(prefix_state_block(nodes[0]), held);
        assert_int_equal(kv_pool_free_blocks(c->pool), STATES - 4 + i);
    }
    assert_int_equal(prefix_state_evict(c->rig.p, 1), 1); /* the last one is given up: its holder takes it over */
    assert_int_equal(kv_pool_free_blocks(c->pool), STATES - 1);
    assert_int_equal(kv_pool_refs(c->pool, held), 1);
    kv_pool_unref(c->pool, held);
}

/* The same where all states of the uid with most are held: another gives one, whose block becomes free. */
static void test_evict_all_of_one_held(void **state)
{
    struct chain *c = *state;
    struct prefix_node *nodes[5];
    uint32_t held[3];
    for (int i = 0; i < 5; i++) {
        nodes[i] = chain_alone(c, 1 + i, i < 3 ? 1 : (uid_t)i);
        chain_attach(c, nodes[i], PREFIX_STATE_NEAR);
        if (i < 3) kv_pool_ref(c->pool, held[i] = prefix_state_block(nodes[i]));
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(prefix_state_evict(c->rig.p, 1), 1);
        assert_int_equal(kv_pool_free_blocks(c->pool), STATES - 4 + i);
        assert_int_equal(chain_states(c), 3);
    }
    assert_int_equal(prefix_state_evict(c->rig.p, 1), 1);
    assert_int_equal(chain_states(c), 2);
    assert_int_equal(prefix_state_block(nodes[0]), KV_NO_BLOCK); /* the oldest */
    for (int i = 0; i < 3; i++) kv_pool_unref(c->pool, held[i]);
}

/* However many states a user stores, another keeps a fair part, whatever they are worth. */
static void test_evict_flood(void **state)
{
    enum { MANY = 10, FEW = STATES / 2 };
    struct chain *c = *state;
    struct prefix_node *theirs[FEW], *flood[MANY];
    for (int i = 0; i < FEW; i++) theirs[i] = chain_alone(c, 1 + i, 2);
    for (int i = 0; i < MANY; i++) flood[i] = chain_alone(c, 50 + i, 1);
    for (int i = 0; i < FEW; i++) chain_attach(c, theirs[i], PREFIX_STATE_NEAR);
    for (int i = 0; i < 200; i++) {
        struct prefix_node *n = flood[i % MANY];
        if (prefix_state_block(n) != KV_NO_BLOCK) continue;
        if (!kv_pool_free_blocks(c->pool)) assert_int_equal(prefix_state_evict(c->rig.p, 1), 1);
        chain_attach(c, n, PREFIX_STATE_TURN);
    }
    struct prefix_stats s;
    prefix_stats_get(c->rig.p, 2, &s);
    assert_true(s.states_memory >= FEW - 1); /* when both have as many, either may give one */
    assert_true(chain_states(c) <= STATES - FEW + 1);
    /* One with little keeps all of it. */
    prefix_state_evict(c->rig.p, STATES);
    chain_attach(c, theirs[0], PREFIX_STATE_NEAR);
    for (int i = 0; i < 200; i++) {
        struct prefix_node *n = flood[i % MANY];
        if (prefix_state_block(n) != KV_NO_BLOCK) continue;
        if (!kv_pool_free_blocks(c->pool)) assert_int_equal(prefix_state_evict(c->rig.p, 1), 1);
        chain_attach(c, n, PREFIX_STATE_TURN);
        assert_int_not_equal(prefix_state_block(theirs[0]), KV_NO_BLOCK);
    }
}

/* --- exact limits --- */

static struct {
    struct fixture rig;
    struct kv_pool *pool;
} large;

static void large_begin(void)
{
    fixture_init(&large.rig, 1000);
    assert_int_equal(kv_pool_new(&large.pool, 16), 0);
    prefix_add_states(large.rig.p, large.pool, NULL, NULL);
}

static void large_end(void)
{
    fixture_fini(&large.rig);
    kv_pool_free(large.pool);
}

/* The last of a chain of @n blocks. */
static struct prefix_node *chain_of(int n, int32_t token)
{
    struct prefix_node *node = NULL;
    for (int i = 0; i < n; i++) assert_int_equal(fixture_add(&large.rig, node, token, KV_BLOCK, 1, &node), 0);
    return node;
}

static void take_state(struct prefix_node *n)
{
    uint32_t block;
    assert_int_equal(kv_pool_take(large.pool, &block), 0);
    assert_true(prefix_state_attach(large.rig.p, n, block, PREFIX_STATE_NEAR));
    kv_pool_unref(large.pool, block);
}

/* Eight of the least recently used states are compared: a ninth stays, though it is worth least. */
static void test_eight_are_compared(void **state)
{
    struct prefix_node *n[9];
    large_begin();
    for (int i = 0; i < 9; i++) n[i] = chain_of(i < 8 ? 60 : 1, 100 + i);
    for (int i = 0; i < 9; i++) take_state(n[i]);
    assert_int_equal(prefix_state_evict(large.rig.p, 1), 1);
    assert_int_equal(prefix_state_block(n[0]), KV_NO_BLOCK);
    for (int i = 1; i < 9; i++) assert_int_not_equal(prefix_state_block(n[i]), KV_NO_BLOCK);
    assert_int_equal(prefix_state_evict(large.rig.p, 1), 1);
    assert_int_equal(prefix_state_block(n[8]), KV_NO_BLOCK); /* one of eight now */
    large_end();
}

/* A state is worth at most 256 blocks: 769 uses old it is worth less than one of a block that is 3 uses old. */
static void test_longest_gap(void **state)
{
    for (int32_t gap = 255; gap <= 300; gap += 45) {
        large_begin();
        struct prefix_node *a = chain_of(gap, 1), *b = chain_of(1, 2);
        take_state(a);
        for (int i = 0; i < 765; i++) prefix_touch(large.rig.p, b);
        take_state(b);
        for (int i = 0; i < 2; i++) prefix_touch(large.rig.p, b);
        assert_int_equal(prefix_state_evict(large.rig.p, 1), 1);
        assert_int_equal(prefix_state_block(a), KV_NO_BLOCK);
        large_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least),
        cmocka_unit_test_setup_teardown(test_thin, chain_setup, chain_teardown),
        cmocka_unit_test_setup_teardown(test_thin_branch, chain_setup, chain_teardown),
        cmocka_unit_test_setup_teardown(test_evict, chain_setup, chain_teardown),
        cmocka_unit_test_setup_teardown(test_evict_worth, chain_setup, chain_teardown),
        cmocka_unit_test_setup_teardown(test_evict_turn, chain_setup, chain_teardown),
        cmocka_unit_test_setup_teardown(test_evict_on_disk, chain_setup, chain_teardown),
        cmocka_unit_test_setup_teardown(test_evict_held, chain_setup, chain_teardown),
        cmocka_unit_test_setup_teardown(test_evict_all_of_one_held, chain_setup, chain_teardown),
        cmocka_unit_test_setup_teardown(test_evict_flood, chain_setup, chain_teardown),
        cmocka_unit_test(test_eight_are_compared),
        cmocka_unit_test(test_longest_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

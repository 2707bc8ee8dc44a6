/* SPDX-License-Identifier: MIT */
#include "tests/cache/prefix/state-chain.h"

static bool evicting(void *ctx, const struct prefix_info *info)
{
    struct chain *c = ctx;
    c->left = *info;
    c->evicted++;
    assert_int_not_equal(info->state, KV_NO_BLOCK);
    return c->write;
}

int chain_setup(void **state)
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

int chain_teardown(void **state)
{
    struct chain *c = *state;
    fixture_fini(&c->rig);
    kv_pool_free(c->pool); /* asserts that all blocks are free */
    return 0;
}

void chain_attach(struct chain *c, struct prefix_node *n, enum prefix_state_kind kind)
{
    uint32_t block;
    assert_int_equal(kv_pool_take(c->pool, &block), 0);
    assert_true(prefix_state_attach(c->rig.p, n, block, kind));
    kv_pool_unref(c->pool, block);
    assert_int_equal(prefix_state_block(n), block);
    prefix_check(c->rig.p);
}

struct prefix_node *chain_alone(struct chain *c, int32_t token, uid_t uid)
{
    struct prefix_node *n;
    assert_int_equal(fixture_add(&c->rig, NULL, token, KV_BLOCK, uid, &n), 0);
    return n;
}

uint32_t chain_states(const struct chain *c)
{
    struct prefix_stats s;
    prefix_stats_get(c->rig.p, 1, &s);
    return (uint32_t)s.states_memory;
}

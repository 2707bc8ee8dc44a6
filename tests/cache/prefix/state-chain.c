/* SPDX-License-Identifier: MIT */
#include "tests/cache/prefix/state-chain.h"
#include "daemon/cache/prefix/prefix-host.h"

static bool evicting(void *ctx, const struct prefix_info *info)
{
    struct chain *c = ctx;
    c->left = *info;
    c->evicted++;
    assert_true((info->state != KV_NO_BLOCK) != (info->state_slot != KV_NO_BLOCK));
    return c->write;
}

static bool copy(void *ctx, const struct prefix_info *info, uint32_t slot)
{
    struct chain *c = ctx;
    assert_true(info->state != KV_NO_BLOCK && info->state_slot == KV_NO_BLOCK);
    c->copies++;
    if (!c->broken) c->copied[slot] = info->id;
    return !c->broken;
}

/* All blocks that are evicted are kept. */
static bool copy_block(void *ctx, const struct prefix_info *info, uint8_t groups, uint32_t slot)
{
    return true;
}

static int setup(void **state, bool host)
{
    static struct chain c;
    c = (struct chain){0};
    fixture_init(&c.rig, 4 * CHAIN);
    assert_int_equal(kv_pool_new(&c.pool, STATES), 0);
    if (host) {
        assert_int_equal(kv_pool_new(&c.hosts, 2 * CHAIN), 0);
        assert_int_equal(kv_pool_new(&c.slots, SLOTS), 0);
        prefix_add_host(c.rig.p, c.hosts, copy_block, NULL, &c);
        prefix_add_state_slots(c.rig.p, c.slots, copy, &c);
    }
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

int chain_setup(void **state)
{
    return setup(state, false);
}

int chain_setup_host(void **state)
{
    return setup(state, true);
}

int chain_teardown(void **state)
{
    struct chain *c = *state;
    fixture_fini(&c->rig);
    kv_pool_free(c->pool); /* these assert that all blocks are free */
    kv_pool_free(c->hosts);
    kv_pool_free(c->slots);
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

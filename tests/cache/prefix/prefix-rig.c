/* SPDX-License-Identifier: MIT */
#include "tests/cache/prefix/prefix-rig.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

void prefix_rig_init(struct prefix_rig *r, uint32_t blocks)
{
    *r = (struct prefix_rig){.namespace = {{1, 2, 3}}};
    assert_int_equal(kv_pool_new(&r->pool, blocks), 0);
    assert_int_equal(prefix_new(&r->p, r->pool, NULL), 0);
}

void prefix_rig_fini(struct prefix_rig *r)
{
    prefix_check(r->p);
    r->p = prefix_free(r->p);
    assert_int_equal(kv_pool_free_blocks(r->pool), kv_pool_total(r->pool));
    r->pool = kv_pool_free(r->pool);
}

int prefix_rig_add_tokens(struct prefix_rig *r, struct prefix_node *parent, const int32_t *tokens, uint32_t n,
                          uid_t uid, struct prefix_node **out)
{
    uint32_t block;
    assert_int_equal(kv_pool_take(r->pool, &block), 0);
    if (parent) prefix_ref(r->p, parent);
    int got = prefix_add(r->p, &r->namespace, parent, tokens, n, block, uid, out);
    kv_pool_unref(r->pool, block);
    if (parent) prefix_unref(r->p, parent);
    return got;
}

int prefix_rig_add(struct prefix_rig *r, struct prefix_node *parent, int32_t token, uint32_t n, uid_t uid,
                   struct prefix_node **out)
{
    int32_t tokens[KV_BLOCK];
    prefix_rig_fill(tokens, KV_BLOCK, token);
    return prefix_rig_add_tokens(r, parent, tokens, n, uid, out);
}

struct prefix_id prefix_rig_id(const struct prefix_node *n)
{
    struct prefix_info info;
    prefix_info(n, &info);
    return info.id;
}

struct prefix_match prefix_rig_find(const struct prefix_rig *r, const int32_t *tokens, uint32_t n)
{
    struct prefix_match m;
    prefix_find(r->p, &r->namespace, tokens, n, &m);
    return m;
}

void prefix_rig_fill(int32_t *tokens, uint32_t n, int32_t token)
{
    for (uint32_t i = 0; i < n; i++) tokens[i] = token;
}

struct left {
    struct prefix_id id;
    bool write;
};

static bool leave(void *ctx, const struct prefix_info *info)
{
    struct left *l = ctx;
    l->id = info->id;
    return l->write;
}

struct prefix_id prefix_rig_evict(struct prefix_rig *r, bool write)
{
    struct left l = {.write = write};
    prefix_evict(r->p, 1, leave, &l);
    prefix_check(r->p);
    return l.id;
}

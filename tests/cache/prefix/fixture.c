/* SPDX-License-Identifier: MIT */
#include "tests/cache/prefix/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

void fixture_init(struct fixture *r, uint32_t blocks)
{
    *r = (struct fixture){.namespace = {{1, 2, 3}}};
    assert_int_equal(kv_pool_new(&r->pool, blocks), 0);
    assert_int_equal(prefix_new(&r->p, r->pool, NULL), 0);
}

void fixture_fini(struct fixture *r)
{
    prefix_check(r->p);
    r->p = prefix_free(r->p);
    assert_int_equal(kv_pool_free_blocks(r->pool), kv_pool_total(r->pool));
    r->pool = kv_pool_free(r->pool);
}

int fixture_add_tokens(struct fixture *r, struct prefix_node *parent, const int32_t *tokens, uint32_t n, uid_t uid,
                       struct prefix_node **out)
{
    uint32_t block;
    assert_int_equal(kv_pool_take(r->pool, &block), 0);
    if (parent) prefix_ref(r->p, parent);
    int got = prefix_add(r->p, &r->namespace, parent, items_tokens(tokens, n), block, uid, out);
    kv_pool_unref(r->pool, block);
    if (parent) prefix_unref(r->p, parent);
    return got;
}

int fixture_add(struct fixture *r, struct prefix_node *parent, int32_t token, uint32_t n, uid_t uid,
                struct prefix_node **out)
{
    int32_t tokens[KV_BLOCK];
    fixture_fill(tokens, KV_BLOCK, token);
    return fixture_add_tokens(r, parent, tokens, n, uid, out);
}

struct prefix_id fixture_id(const struct prefix_node *n)
{
    struct prefix_info info;
    prefix_info(n, &info);
    return info.id;
}

struct prefix_match fixture_find(const struct fixture *r, const int32_t *tokens, uint32_t n)
{
    struct prefix_match m;
    prefix_find(r->p, &r->namespace, items_tokens(tokens, n), &m);
    return m;
}

void fixture_fill(int32_t *tokens, uint32_t n, int32_t token)
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

struct prefix_id fixture_evict(struct fixture *r, bool write)
{
    struct left l = {.write = write};
    prefix_evict(r->p, 1, leave, &l);
    prefix_check(r->p);
    return l.id;
}

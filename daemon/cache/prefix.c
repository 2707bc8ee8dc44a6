/* SPDX-License-Identifier: MIT */
#include "daemon/cache/prefix.h"
#include "daemon/cache/prefix-node.h"
#include "libcommon/error.h"
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>

static uint64_t hash_xxh3(const void *bytes, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, len, seed);
}

static int tables_init(struct prefix *p)
{
    const uint64_t blocks = kv_pool_total(p->pool);
    uint64_t places = 64;
    while (places < 2 * blocks) places *= 2;
    p->given_up = calloc(places, sizeof(*p->given_up));
    p->given_mask = places - 1;
    if (!p->given_up || table_init(&p->full, blocks) < 0 || table_init(&p->ids, blocks) < 0 ||
        table_init(&p->spaces, 0) < 0 || table_init(&p->uids, 0) < 0)
        return -ENOMEM;
    return 0;
}

static void tables_fini(struct prefix *p)
{
    table_fini(&p->full);
    table_fini(&p->ids);
    table_fini(&p->spaces);
    table_fini(&p->uids);
    free(p->given_up);
}

int prefix_new(struct prefix **out, struct kv_pool *pool, prefix_hash_fn hash)
{
    uint64_t drawn[3];
    if (getrandom(drawn, sizeof(drawn), 0) != (ssize_t)sizeof(drawn)) return error_origin(-errno);
    struct prefix *p = calloc(1, sizeof(*p));
    if (!p) return -ENOMEM;
    p->pool = pool;
    p->hash = hash ? hash : hash_xxh3;
    p->seed = hash ? 0 : drawn[0];
    p->random = hash ? 0 : drawn[1]; /* a test wants to see the same again */
    p->high = drawn[2];
    p->low = 1;
    p->learn_from = PREFIX_LEARN;
    if (tables_init(p) < 0) {
        tables_fini(p);
        free(p);
        return -ENOMEM;
    }
    *out = p;
    return 0;
}

/* Free every member of @t, whose link is @offset bytes into it. */
static void free_members(struct table *t, size_t offset)
{
    for (uint64_t i = 0; i <= t->mask; i++)
        for (struct table_link *l = t->slots[i], *next; l; l = next) {
            next = l->next;
            free((char *)l - offset);
        }
}

struct prefix *prefix_free(struct prefix *p)
{
    if (!p) return NULL;
    for (uint64_t i = 0; i <= p->spaces.mask; i++)
        for (struct table_link *l = p->spaces.slots[i]; l; l = l->next) assert(!NODE_OF(l, by_place)->pins);
    for (uint64_t i = 0; i <= p->ids.mask; i++)
        for (struct table_link *l = p->ids.slots[i]; l; l = l->next)
            if (NODE_OF(l, by_id)->block != PREFIX_NO_BLOCK) kv_pool_unref(p->pool, NODE_OF(l, by_id)->block);
    free_members(&p->ids, offsetof(struct prefix_node, by_id));
    free_members(&p->spaces, offsetof(struct prefix_root, node.by_place));
    for (uint64_t i = 0; i <= p->uids.mask; i++)
        for (struct table_link *l = p->uids.slots[i]; l; l = l->next)
            free(((struct prefix_owner *)((char *)l - offsetof(struct prefix_owner, by_uid)))->worth);
    free_members(&p->uids, offsetof(struct prefix_owner, by_uid));
    tables_fini(p);
    free(p);
    return NULL;
}

/* --- reading --- */

/* How @n tokens behind @at could go on: through full children with a bit of @mask as far as there are, *common tokens
 * into *nearest (NULL: none) then. Returns the tokens of the full ones, @at the last of them. */
static uint32_t walk(const struct prefix *p, struct prefix_node **at, const int32_t *tokens, uint32_t n, uint8_t mask,
                     struct prefix_node **nearest, uint32_t *common)
{
    uint64_t hashes[PREFIX_AHEAD];
    uint32_t done = 0;
    for (uint32_t i = 0, known = 0; n - done >= PREFIX_BLOCK; i++) {
        const int32_t *next = tokens + done;
        if (i == known) {
            known = prefix_kin_ahead(p, *at, next, n - done, hashes);
            i = 0;
        }
        struct prefix_node *child = prefix_kin_full(p, *at, next, hashes[i]);
        if (!child || !(child->in_kin.own & mask)) break;
        *at = child;
        done += PREFIX_BLOCK;
    }
    const uint32_t left = n - done < PREFIX_BLOCK ? n - done : PREFIX_BLOCK;
    *common = 0;
    *nearest = left ? prefix_kin_nearest(*at, tokens + done, left, mask, common) : NULL;
    return done;
}

/* What follows behind @at, of which @found tokens were found, was it here? */
static enum prefix_miss why(const struct prefix *p, const struct prefix_node *at, const int32_t *tokens, uint32_t n,
                            uint32_t found)
{
    uint32_t common;
    if (found == n) return PREFIX_ALL;
    if (prefix_kin_nearest(at, tokens, n < PREFIX_BLOCK ? n : PREFIX_BLOCK, ANY_CHILD, &common) && common > found)
        return PREFIX_EVICTED;
    if (n < PREFIX_BLOCK) return PREFIX_NEW;
    const uint64_t hash = prefix_kin_hash(p, at, tokens);
    return prefix_node_was(p, hash) ? PREFIX_EVICTED : PREFIX_NEW;
}

void prefix_find(const struct prefix *p, const struct prefix_space *space, const int32_t *tokens, uint32_t n,
                 struct prefix_match *out)
{
    *out = (struct prefix_match){.miss = n ? PREFIX_NEW : PREFIX_ALL};
    struct prefix_node *at = prefix_root_find(p, space), *nearest;
    if (n == 0) return;
    if (!at) {
        const struct prefix_node gone = {.by_place.hash = prefix_root_hash(p, space)};
        out->miss = why(p, &gone, tokens, n, 0);
        return;
    }
    out->n = walk(p, &at, tokens, n, IN_MEMORY, &out->partial, &out->n_partial);
    if (at->parent) out->node = at;
    uint32_t common, on = walk(p, &at, tokens + out->n, n - out->n, READABLE, &nearest, &common);
    if (on + common > out->n_partial) out->n_disk = on + common;
    out->miss = why(p, at, tokens + out->n + on, n - out->n - on, common);
}

struct prefix_node *prefix_child(const struct prefix *p, const struct prefix_space *space,
                                 const struct prefix_node *parent, const int32_t *tokens, uint32_t n, uint32_t *common)
{
    const struct prefix_node *at = parent ? parent : prefix_root_find(p, space);
    *common = 0;
    if (!at || n == 0) return NULL;
    return prefix_kin_nearest(at, tokens, n < PREFIX_BLOCK ? n : PREFIX_BLOCK, READABLE, common);
}

struct prefix_node *prefix_parent(const struct prefix_node *n)
{
    return n->parent->parent ? n->parent : NULL;
}

uint32_t prefix_block(const struct prefix_node *n)
{
    return n->block;
}

void prefix_info(const struct prefix_node *n, struct prefix_info *out)
{
    *out = (struct prefix_info){
        .id = n->id,
        .parent = n->parent->id,
        .space = n->root->space,
        .uid = n->owner->uid,
        .n = n->n,
        .block = n->block,
        .used = n->used,
        .on_disk = n->on_disk,
    };
    memcpy(out->tokens, n->tokens, n->n * sizeof(*n->tokens));
}

/* The chain up to @n is used now, and by a request that begins with it, if @begins. */
static void touch(struct prefix *p, struct prefix_node *n, bool begins)
{
    p->clock++;
    n->owner->clock += begins;
    for (; n->parent; n = n->parent) {
        n->used = p->clock;
        n->since = n->owner->clock;
        if (begins) prefix_worth_used(p, n);
        prefix_node_settle(p, n);
    }
}

void prefix_use(struct prefix *p, struct prefix_node *n)
{
    touch(p, n, true);
}

void prefix_touch(struct prefix *p, struct prefix_node *n)
{
    touch(p, n, false);
}

/* --- holding and adding --- */

void prefix_hold(struct prefix *p, struct prefix_node *n)
{
    assert(n->holds < UINT32_MAX);
    n->holds++;
    for (; n; n = n->parent) {
        assert(n->pins < UINT32_MAX);
        if (n->pins++) return; /* the nodes before it are pinned already */
        if (n->block != PREFIX_NO_BLOCK) p->evictable--;
        prefix_node_settle(p, n);
    }
}

void prefix_drop(struct prefix *p, struct prefix_node *n)
{
    assert(n->holds > 0);
    n->holds--;
    for (struct prefix_node *x = n; x; x = x->parent) {
        assert(x->pins > 0);
        if (--x->pins) break;
        if (x->block != PREFIX_NO_BLOCK) p->evictable++;
        prefix_node_settle(p, x);
    }
    if (n->block != PREFIX_NO_BLOCK)
        prefix_node_subsume(p, n);
    else
        prefix_node_collect(p, n);
}

/* tokens[n] behind @at are in memory now: what is only a beginning of them goes. */
static void subsume_shorter(struct prefix *p, struct prefix_node *at, const int32_t *tokens, uint32_t n)
{
    struct prefix_node *shorter = prefix_kin_shorter(at, tokens, n);
    while (shorter) {
        const uint32_t length = shorter->n;
        if (shorter->block == PREFIX_NO_BLOCK && !shorter->pins && !shorter->tails) {
            shorter->used = 0; /* its file goes first */
            prefix_node_settle(p, shorter);
        }
        prefix_node_subsume(p, shorter);
        shorter = prefix_kin_shorter(at, tokens, length);
    }
}

static struct prefix_node *same_place(const struct prefix *p, const struct prefix_node *at, const int32_t *tokens,
                                      uint32_t n)
{
    if (n == PREFIX_BLOCK) return prefix_kin_full(p, at, tokens, prefix_kin_hash(p, at, tokens));
    return prefix_kin_exact(at, tokens, n);
}

int prefix_add(struct prefix *p, const struct prefix_space *space, struct prefix_node *parent, const int32_t *tokens,
               uint32_t n, uint32_t block, uid_t uid, struct prefix_node **out)
{
    assert(n >= 1 && n <= PREFIX_BLOCK);
    struct prefix_node *at = parent;
    if (parent) {
        assert(parent->pins && parent->block != PREFIX_NO_BLOCK && parent->n == PREFIX_BLOCK);
        assert(memcmp(&parent->root->space, space, sizeof(*space)) == 0);
    } else if (!(at = prefix_root_make(p, space))) {
        return -ENOMEM;
    }
    struct prefix_node *x = same_place(p, at, tokens, n), *there = NULL;
    if (x && x->block != PREFIX_NO_BLOCK)
        there = x;
    else if (n < PREFIX_BLOCK)
        there = prefix_kin_longer(at, tokens, n);
    if (!there && !x) {
        x = prefix_node_make(p, at, (struct prefix_id){p->high, p->low}, tokens, n, uid);
        if (!x) {
            prefix_node_collect(p, at);
            return -ENOMEM;
        }
        p->low++;
        if (n == PREFIX_BLOCK) x->uses = prefix_node_was(p, x->by_place.hash);
    }
    *out = there ? there : x;
    (*out)->used = ++p->clock;
    (*out)->since = ++(*out)->owner->clock;
    if (!there) prefix_worth_used(p, x);
    prefix_node_settle(p, *out);
    if (there) return 1;
    prefix_node_enter(p, x, block);
    subsume_shorter(p, at, tokens, n);
    return 0;
}

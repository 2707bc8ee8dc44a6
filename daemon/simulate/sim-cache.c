/* SPDX-License-Identifier: MIT */
/* The blocks of the simulation: a pool and an index as in the daemon, without data. */
#include "daemon/simulate/sim-inside.h"
#include "libcommon/error.h"
#include <assert.h>
#include <stdlib.h>
#include <xxhash.h>

static const struct prefix_namespace namespace; /* one owner for all: users matter to the scheduler, not to cache hits
                                                 */

static uint32_t nodes_of(const struct sim *s, uint32_t tokens)
{
    return (tokens + s->c->block - 1) / s->c->block;
}

uint32_t sim_cache_blocks(const struct sim *s, const struct trace_request *q)
{
    return nodes_of(s, q->prompt + q->answer);
}

/* A fixed seed: the index draws a random one, and its learning depends on the seed a little. */
static uint64_t hash(const void *bytes, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, len, seed);
}

int sim_cache_new(struct sim *s)
{
    uint64_t largest = 0, room, parts = TRACE_BLOCK / s->c->block;
    for (size_t i = 0; i < s->t->n; i++) {
        uint64_t n = sim_cache_blocks(s, &s->t->requests[i]);
        if (n > largest) largest = n;
    }
    room = s->c->room < 0 ? s->t->distinct * parts + largest * s->c->parallel
                          : (uint64_t)(s->c->room * (double)(s->t->distinct * parts));
    if (room < largest) room = largest;
    if (room > UINT32_MAX) return error_say(-EINVAL, "too many blocks");
    s->out->room = room;
    s->ids = calloc(largest * KV_BLOCK, sizeof(*s->ids));
    if (!s->ids) return -ENOMEM;
    int r = kv_pool_new(&s->pool, (uint32_t)room);
    return r < 0 ? r : prefix_new(&s->prefix, s->pool, hash);
}

void sim_cache_free(struct sim *s)
{
    s->prefix = prefix_free(s->prefix);
    s->pool = kv_pool_free(s->pool);
    free(s->ids);
}

uint32_t sim_cache_free_blocks(const struct sim *s)
{
    return kv_pool_free_blocks(s->pool) + prefix_evictable(s->prefix);
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* The tokens of a node: from the trace for prompts, unique ones for answers. */
static void write_ids(const struct sim *s, const struct sim_seq *q, uint32_t node, int32_t out[KV_BLOCK])
{
    uint64_t x = 2 * q->id + 1, parts = TRACE_BLOCK / s->c->block;
    if (node < nodes_of(s, q->q->prompt)) x = 2 * s->t->ids[q->q->first + node / parts];
    for (uint32_t i = 0; i < KV_BLOCK; i++) out[i] = (int32_t)(mix(mix(x) + node * KV_BLOCK + i) >> 34);
}

static void find(struct sim *s, uint32_t i, struct prefix_match *m)
{
    uint32_t nodes = nodes_of(s, s->reqs[i].known);
    for (uint32_t k = 0; k < nodes; k++) write_ids(s, &s->seqs[i], k, s->ids + k * KV_BLOCK);
    prefix_find(s->prefix, &namespace, items_tokens(s->ids, nodes * KV_BLOCK), m);
}

uint32_t sim_cache_find(struct sim *s, uint32_t i)
{
    struct prefix_match m;
    find(s, i, &m);
    uint32_t tokens = m.n / KV_BLOCK * s->c->block;
    return tokens < s->reqs[i].known ? tokens : s->reqs[i].known;
}

int sim_cache_start(struct sim *s, uint32_t i)
{
    struct sim_seq *q = &s->seqs[i];
    struct sched_req *r = &s->reqs[i];
    struct prefix_match m;
    find(s, i, &m);
    uint32_t have = m.n / KV_BLOCK, need = sim_cache_blocks(s, q->q) - have, free;
    if (m.node) {
        prefix_ref(s->prefix, m.node);
        if (q->started)
            prefix_touch(s->prefix, m.node);
        else
            prefix_use(s->prefix, m.node);
    }
    if ((free = kv_pool_free_blocks(s->pool)) < need) prefix_evict(s->prefix, need - free, NULL, NULL);
    bool fits = kv_pool_free_blocks(s->pool) >= need;
    if (fits) q->own = calloc(need ? need : 1, sizeof(*q->own));
    if (!fits || !q->own) {
        if (m.node) prefix_unref(s->prefix, m.node);
        return fits ? -ENOMEM : 1;
    }
    for (q->n_own = 0; q->n_own < need; q->n_own++) {
        int e = kv_pool_take(s->pool, &q->own[q->n_own]);
        assert(e == 0); /* counted above */
    }
    q->node = m.node;
    q->n_nodes = have;
    uint32_t tokens = have * s->c->block;
    if (!q->started) q->hit = tokens < q->q->prompt ? tokens : q->q->prompt;
    r->computed = tokens < r->known ? tokens : r->known - 1;
    r->blocks = need;
    return 0;
}

int sim_cache_add(struct sim *s, uint32_t i, bool answer)
{
    struct sim_seq *q = &s->seqs[i];
    const struct sched_req *r = &s->reqs[i];
    uint32_t prompt = nodes_of(s, q->q->prompt), whole = r->computed / s->c->block;
    if (r->computed >= q->q->prompt && whole < prompt) whole = prompt; /* with the last node, which is never full */
    if (!answer && whole > prompt) whole = prompt;
    if (answer) whole = nodes_of(s, r->computed);
    while (q->n_nodes < whole && q->n_own) {
        struct prefix_node *node;
        int32_t ids[KV_BLOCK];
        uint32_t block = q->own[--q->n_own];
        write_ids(s, q, q->n_nodes, ids);
        int e = prefix_add(s->prefix, &namespace, q->node, items_tokens(ids, KV_BLOCK), block, q->q->user, &node);
        kv_pool_unref(s->pool, block); /* the index has its own reference, or another block */
        if (e < 0) return e;
        prefix_ref(s->prefix, node);
        if (q->node) prefix_unref(s->prefix, q->node);
        q->node = node;
        q->n_nodes++;
    }
    return 0;
}

void sim_cache_end(struct sim *s, uint32_t i)
{
    struct sim_seq *q = &s->seqs[i];
    while (q->n_own) kv_pool_unref(s->pool, q->own[--q->n_own]);
    free(q->own);
    q->own = NULL;
    if (q->node) {
        prefix_touch(s->prefix, q->node);
        prefix_unref(s->prefix, q->node);
    }
    q->node = NULL;
    q->n_nodes = 0;
}

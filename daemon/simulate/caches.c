/* SPDX-License-Identifier: MIT */
#include "daemon/simulate/caches.h"
#include "daemon/cache/prefix/eviction-score.h"
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define NONE     UINT32_MAX
#define NEVER    UINT32_MAX
#define SLRU_MAX 0.3
#define S3_SMALL 0.1
#define LOG_STEP 300

const char *const caches_names[CACHES_POLICIES] = {
    "lru",     "lru, partial block first", "slru 0.3",      "lfu-da", "gdsf",
    "s3-fifo", "lru + 300 log2 uses",      "learned reuse", "oracle"};

/* A block, in the cache or not. Blocks are numbered in the order of their ids. */
struct block {
    uint64_t id;
    uint32_t parent, children; /* children: in the cache */
    uint32_t leaf;             /* index in leaves; NONE */
    uint32_t uses, ever;       /* uses since it was cached; since the start */
    uint32_t last, length;     /* last request; number of blocks of that request */
    uint32_t next;             /* the next request that uses it; NEVER */
    bool in, held, partial, main;
    double rank; /* of the policy */
};

struct item {
    double value;
    uint32_t block;
};

struct cache {
    const struct trace *t;
    enum caches_policy policy;
    uint32_t room, n, now, n_leaves, n_heap, n_main;
    bool heaped; /* the heap was built for this request */
    double aged, order;
    uint32_t *number; /* [n_ids] the block of each id of the trace */
    uint32_t *future; /* [n_ids] the next request that uses the block */
    struct block *blocks;
    uint32_t *leaves;
    struct item *heap;
    struct eviction_score *score;
};

/* --- order of eviction: the smallest value first --- */

static double value(const struct cache *c, const struct block *b)
{
    double age = c->now - b->last;
    switch (c->policy) {
    case CACHES_PARTIAL:
        return b->partial ? -age : c->now + 1.0 - age;
    case CACHES_SLRU:
        return b->main ? c->now + 1.0 - age : -age;
    case CACHES_LFU_DA:
    case CACHES_GDSF:
        return b->rank;
    case CACHES_S3_FIFO: {
        bool small_first = c->n - c->n_main >= S3_SMALL * c->room;
        return b->rank + (b->main == small_first ? 1e12 : 0);
    }
    case CACHES_LOG:
        return LOG_STEP * log2(b->uses) - age;
    case CACHES_LEARNED:
        return eviction_score_of(c->score, b->ever, c->now - b->last) - age * 1e-12;
    case CACHES_ORACLE:
        return -(double)b->next;
    default:
        return -age;
    }
}

/* Counts a use of @b, the uses-th since it was cached. */
static void use(struct cache *c, struct block *b, uint32_t length)
{
    if (c->policy == CACHES_LFU_DA) b->rank = c->aged + b->uses;
    if (c->policy == CACHES_GDSF) b->rank = c->aged + b->uses * 24.0 / length; /* 24: a typical length */
    if (c->policy == CACHES_SLRU && b->uses > 1 && !b->main) {
        b->main = true;
        c->n_main++;
    }
    if (c->policy == CACHES_S3_FIFO && b->uses == 1) b->rank = ++c->order;
}

/* @b is next to be evicted. True: the policy keeps it in this round. */
static bool second_chance(struct cache *c, struct block *b)
{
    if (c->policy != CACHES_S3_FIFO || b->uses <= 1) return false;
    b->uses = b->main ? (b->uses > 4 ? 4 : b->uses) - 1 : 1;
    c->n_main += !b->main;
    b->main = true;
    b->rank = ++c->order;
    return true;
}

/* --- the leaves --- */

static void leaf_add(struct cache *c, uint32_t i)
{
    c->blocks[i].leaf = c->n_leaves;
    c->leaves[c->n_leaves++] = i;
}

static void leaf_remove(struct cache *c, uint32_t i)
{
    uint32_t at = c->blocks[i].leaf, last = c->leaves[--c->n_leaves];
    c->leaves[at] = last;
    c->blocks[last].leaf = at;
    c->blocks[i].leaf = NONE;
}

static void heap_push(struct cache *c, uint32_t block)
{
    struct item x = {value(c, &c->blocks[block]), block};
    uint32_t i = c->n_heap++;
    for (; i && c->heap[(i - 1) / 2].value > x.value; i = (i - 1) / 2) c->heap[i] = c->heap[(i - 1) / 2];
    c->heap[i] = x;
}

static uint32_t heap_pop(struct cache *c)
{
    uint32_t top = c->heap[0].block, i = 0;
    struct item x = c->heap[--c->n_heap];
    for (uint32_t k; (k = 2 * i + 1) < c->n_heap; i = k) {
        if (k + 1 < c->n_heap && c->heap[k + 1].value < c->heap[k].value) k++;
        if (c->heap[k].value >= x.value) break;
        c->heap[i] = c->heap[k];
    }
    c->heap[i] = x;
    return top;
}

/* Values change with time, so each request that evicts builds the heap anew. */
static bool evict(struct cache *c)
{
    if (!c->heaped) {
        c->n_heap = 0;
        for (uint32_t k = 0; k < c->n_leaves; k++)
            if (!c->blocks[c->leaves[k]].held) heap_push(c, c->leaves[k]);
        c->heaped = true;
    }
    while (c->n_heap) {
        uint32_t i = heap_pop(c);
        struct block *b = &c->blocks[i];
        if (second_chance(c, b)) {
            heap_push(c, i);
            continue;
        }
        if ((c->policy == CACHES_LFU_DA || c->policy == CACHES_GDSF) && b->rank > c->aged) c->aged = b->rank;
        leaf_remove(c, i);
        c->n_main -= b->main;
        b->in = b->main = false;
        b->uses = 0;
        c->n--;
        if (b->parent == NONE || --c->blocks[b->parent].children) return true;
        leaf_add(c, b->parent);
        if (!c->blocks[b->parent].held) heap_push(c, b->parent);
        return true;
    }
    return false;
}

static bool insert(struct cache *c, uint32_t i)
{
    struct block *b = &c->blocks[i];
    while (c->n >= c->room)
        if (!evict(c)) return false;
    b->in = true;
    c->n++;
    leaf_add(c, i);
    if (b->parent != NONE && c->blocks[b->parent].children++ == 0) leaf_remove(c, b->parent);
    return true;
}

/* SLRU: the protected part has a limit. The least recently used blocks leave it. */
static void shrink_main(struct cache *c)
{
    while (c->policy == CACHES_SLRU && c->n_main > SLRU_MAX * c->room) {
        struct block *oldest = NULL;
        for (uint32_t k = 0; k < c->n_leaves; k++) {
            struct block *b = &c->blocks[c->leaves[k]];
            for (; !b->main && b->parent != NONE; b = &c->blocks[b->parent]) continue;
            if (b->main && (!oldest || b->last < oldest->last)) oldest = b;
        }
        if (!oldest) return;
        /* Only the part of its chain with the same last use. */
        for (struct block *b = oldest; b->main; b = &c->blocks[b->parent]) {
            if (b->last != oldest->last) break;
            b->main = false;
            b->last = c->now;
            c->n_main--;
            if (b->parent == NONE) break;
        }
    }
}

static uint64_t access_prompt(struct cache *c, const struct trace_request *q)
{
    const uint32_t *list = c->number + q->first;
    uint64_t hit = 0;
    bool missed = false;
    for (uint32_t k = 0; k < q->n; k++) {
        struct block *b = &c->blocks[list[k]];
        missed |= !b->in;
        hit += missed ? 0 : TRACE_BLOCK;
        b->held = true;
    }
    c->heaped = false;
    for (uint32_t k = 0; k < q->n; k++) {
        struct block *b = &c->blocks[list[k]];
        if (!b->in && !insert(c, list[k])) break;
        b->uses++;
        b->last = c->now;
        b->ever += b->ever < NEVER;
        b->next = c->future[q->first + k];
        b->partial = k + 1 == q->n && q->prompt % TRACE_BLOCK;
        if (c->policy == CACHES_LEARNED)
            eviction_score_learn(c->score, (b->id + 1) * 0x9e3779b97f4a7c15u, c->now, b->ever);
        use(c, b, q->n);
    }
    for (uint32_t k = 0; k < q->n; k++) c->blocks[list[k]].held = false;
    shrink_main(c);
    return hit < q->prompt ? hit : q->prompt;
}

/* --- start and end --- */

static int by_id(const void *a, const void *b)
{
    const struct block *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static uint32_t find(const struct cache *c, uint32_t n, uint64_t id)
{
    const struct block key = {.id = id};
    return (uint32_t)((struct block *)bsearch(&key, c->blocks, n, sizeof(key), by_id) - c->blocks);
}

/* Numbers the blocks and finds the next use of each. */
static void number(struct cache *c)
{
    const struct trace *t = c->t;
    uint32_t n = 0;
    for (size_t i = 0; i < t->n_ids; i++) c->blocks[i].id = t->ids[i];
    qsort(c->blocks, t->n_ids, sizeof(*c->blocks), by_id);
    for (size_t i = 0; i < t->n_ids; i++)
        if (n == 0 || c->blocks[i].id != c->blocks[n - 1].id) c->blocks[n++] = c->blocks[i];
    for (uint32_t i = 0; i < n; i++) {
        c->blocks[i].parent = c->blocks[i].leaf = NONE;
        c->blocks[i].next = NEVER;
    }
    for (size_t i = t->n; i-- > 0;) {
        const struct trace_request *q = &t->requests[i];
        for (uint32_t k = 0; k < q->n; k++) {
            uint32_t b = c->number[q->first + k] = find(c, n, t->ids[q->first + k]);
            c->future[q->first + k] = c->blocks[b].next;
            c->blocks[b].next = (uint32_t)i;
            if (k) c->blocks[b].parent = c->number[q->first + k - 1];
        }
    }
}

int caches_run(const struct trace *t, enum caches_policy policy, uint64_t room, uint64_t *hit)
{
    struct cache c = {.t = t, .policy = policy, .room = room < NEVER ? (uint32_t)room : NEVER};
    c.number = calloc(t->n_ids, sizeof(*c.number));
    c.future = calloc(t->n_ids, sizeof(*c.future));
    c.blocks = calloc(t->n_ids, sizeof(*c.blocks));
    c.leaves = calloc(t->n_ids, sizeof(*c.leaves));
    c.heap = calloc(t->n_ids, sizeof(*c.heap));
    c.score = calloc(1, sizeof(*c.score));
    int e = c.number && c.future && c.blocks && c.leaves && c.heap && c.score ? 0 : -ENOMEM;
    if (e == 0) {
        eviction_score_init(c.score);
        number(&c);
        *hit = 0;
        for (size_t i = 0; i < t->n; i++) {
            c.now = (uint32_t)i;
            *hit += access_prompt(&c, &t->requests[i]);
        }
    }
    free(c.number);
    free(c.future);
    free(c.blocks);
    free(c.leaves);
    free(c.heap);
    free(c.score);
    return e;
}

/* SPDX-License-Identifier: MIT */
/*
 * bench-prefix [BLOCKS]: measures a request to a prefix index with BLOCKS (default 100,000) cached blocks. A request is
 * a prompt of 100 blocks: find, ref, use, add 4 full blocks and a partial one, unref; and an eviction for each block
 * added. Prints median, 99th percentile and maximum of 2,000 requests, in microseconds of CPU time. Each prompt is a
 * random cached one, so that most of its nodes are not in the CPU's caches.
 */
#include "daemon/cache/prefix/prefix.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PROMPT   100 /* blocks */
#define ADDED    4
#define REQUESTS 2000

struct shape {
    const char *name;
    uint32_t depth;      /* blocks of a chain */
    uint32_t namespaces; /* chains are distributed over them and over as many uids */
    bool one_root;       /* the chains differ first in the last token of the first block */
};

struct bench {
    struct kv_pool *pool;
    struct prefix *p;
    const struct shape *shape;
    uint32_t chains;
    int32_t tokens[(PROMPT + ADDED + 1) * KV_BLOCK];
    double us[REQUESTS], find_us[REQUESTS];
};

static uint64_t rnd_state = 1;

static uint32_t rnd(uint32_t n)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rnd_state >> 33) % n;
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void die(const char *what)
{
    fprintf(stderr, "bench-prefix: %s\n", what);
    exit(1);
}

static struct prefix_namespace namespace_of(const struct bench *b, uint32_t chain)
{
    struct prefix_namespace s = {{1}};
    const uint32_t n = chain % b->shape->namespaces;
    memcpy(s.bytes + 8, &n, sizeof(n));
    return s;
}

static void make_tokens(struct bench *b, uint32_t chain, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) b->tokens[i] = (int32_t)(i * 31 % 977);
    b->tokens[b->shape->one_root ? KV_BLOCK - 1 : 0] = 1000 + (int32_t)chain;
}

/* Adds blocks of tokens[] after *at, as a sequence does: it has a reference on the last one. */
static void add(struct bench *b, const struct prefix_namespace *ns, uid_t uid, struct prefix_node **at, uint32_t from,
                uint32_t to)
{
    while (from < to) {
        const uint32_t n = to - from < KV_BLOCK ? to - from : KV_BLOCK;
        struct prefix_node *next;
        uint32_t block;
        if (kv_pool_take(b->pool, &block) < 0) {
            if (prefix_evict(b->p, 1, NULL, NULL) < 1 || kv_pool_take(b->pool, &block) < 0) die("nothing to evict");
        }
        if (prefix_add(b->p, ns, *at, items_tokens(b->tokens + from, n), block, uid, &next) < 0) die("out of memory");
        kv_pool_unref(b->pool, block);
        prefix_ref(b->p, next);
        if (*at) prefix_unref(b->p, *at);
        *at = next;
        from += n;
    }
}

static void fill(struct bench *b)
{
    for (uint32_t c = 0; c < b->chains; c++) {
        const struct prefix_namespace ns = namespace_of(b, c);
        struct prefix_node *at = NULL;
        make_tokens(b, c, b->shape->depth * KV_BLOCK);
        add(b, &ns, 1000 + c % b->shape->namespaces, &at, 0, b->shape->depth * KV_BLOCK);
        prefix_unref(b->p, at);
    }
}

static void request(struct bench *b, uint32_t i)
{
    const uint32_t chain = rnd(b->chains), n = (PROMPT + ADDED) * KV_BLOCK + 13;
    const struct prefix_namespace ns = namespace_of(b, chain);
    struct prefix_match m;
    make_tokens(b, chain, n);
    b->tokens[PROMPT * KV_BLOCK] = 100000 + (int32_t)i; /* the tokens from here on are new */
    const double start = now_us();
    prefix_find(b->p, &ns, items_tokens(b->tokens, n - 1), &m);
    b->find_us[i] = now_us() - start;
    struct prefix_node *at = m.node;
    if (at) {
        prefix_ref(b->p, at);
        prefix_use(b->p, at);
    }
    const uint32_t to = m.n + ADDED * KV_BLOCK + 13;
    add(b, &ns, 1000 + chain % b->shape->namespaces, &at, m.n, to < n ? to : n);
    prefix_touch(b->p, at);
    prefix_unref(b->p, at);
    b->us[i] = now_us() - start;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void run(uint32_t blocks, const struct shape *shape)
{
    struct bench *b = calloc(1, sizeof(*b));
    if (!b || kv_pool_new(&b->pool, blocks) < 0 || prefix_new(&b->p, b->pool, NULL) < 0) die("out of memory");
    b->shape = shape;
    b->chains = blocks / shape->depth;
    fill(b);
    for (uint32_t i = 0; i < REQUESTS; i++) request(b, i);
    qsort(b->us, REQUESTS, sizeof(*b->us), compare);
    qsort(b->find_us, REQUESTS, sizeof(*b->find_us), compare);
    printf("%-52s %8.1f %8.1f %8.1f %8.1f\n", shape->name, b->find_us[REQUESTS / 2], b->us[REQUESTS / 2],
           b->us[REQUESTS * 99 / 100], b->us[REQUESTS - 1]);
    prefix_free(b->p);
    kv_pool_free(b->pool);
    free(b);
}

int main(int argc, char **argv)
{
    static const struct shape shapes[] = {
        {"one namespace, chains of 100", 100, 1, false},
        {"100 namespaces and uids, chains of 100", 100, 100, false},
        {"one namespace, chains of 100, first 31 tokens the same", 100, 1, true},
        {"1,000 namespaces and uids, chains of 10", 10, 1000, false},
        {"one namespace, 1 block a chain, first 31 tokens the same", 1, 1, true},
    };
    const long blocks = argc > 1 ? strtol(argv[1], NULL, 10) : 100000;
    if (blocks < 1000 || blocks > 100000000) die("BLOCKS is 1000 ... 100000000");
    printf("%-52s %8s %8s %8s %8s\n", "microseconds", "find", "request", "99%", "worst");
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) run((uint32_t)blocks, &shapes[i]);
    return 0;
}

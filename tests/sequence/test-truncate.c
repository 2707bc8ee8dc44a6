/* SPDX-License-Identifier: MIT */
/* Truncated sequences: they compute other tokens from there on, and nobody else's KV changes. */
#include "daemon/sequence/sequence.h"
#include "daemon/sequence/truncate.h"
#include "tests/engine/harness.h"
#include <errno.h>

#define TOKENS 80 /* two blocks and a half */
#define MOST   (TOKENS + 8)
#define VOCAB  512

/* A cache over a tiny model, without an engine. */
struct fixture {
    struct loaded model;
    struct kv_cache cache;
    struct prefix_namespace namespace;
    uint32_t blocks; /* of the pool */
};

static void start(struct fixture *f, uint64_t kv_bytes)
{
    struct engine_config config;
    struct tiny t;
    memset(f, 0, sizeof(*f));
    tiny_init(&t);
    engine_config_init(&config);
    config.kv_bytes = kv_bytes;
    assert_int_equal(harness_load(&f->model, &t, &config), 0);
    assert_true(f->model.vocab <= VOCAB);
    assert_int_equal(kv_cache_new(&f->cache, f->model.backend, &(struct spill_config){0}, NULL), 0);
    memset(&f->namespace, 7, sizeof(f->namespace));
    f->blocks = kv_pool_total(f->cache.pools[0]);
}

static void stop(struct fixture *f)
{
    prefix_check(f->cache.prefix);
    assert_int_equal(kv_pool_free_blocks(f->cache.pools[0]) + prefix_evictable(f->cache.prefix), f->blocks);
    kv_cache_free(&f->cache, 0);
    loaded_fini(&f->model);
}

/* A sequence that needs three blocks; its tokens follow from @seed. */
struct one {
    struct seq *all[1];
    struct seq_group group;
    struct seq *seq;
    float row[VOCAB] __attribute__((aligned(64))); /* logits of its last token */
};

static int32_t token(unsigned seed, uint32_t i)
{
    return (int32_t)(i * i * 7 + seed * 31 + i) % 250;
}

static void one_new(struct one *o, const struct prefix_namespace *ns, unsigned seed)
{
    memset(o, 0, sizeof(*o));
    o->group = (struct seq_group){.seqs = o->all, .n = 1, .left = 1};
    assert_int_equal(seq_new(&o->seq, NULL, &o->group, 0), 0);
    o->seq->state = SEQ_RUNNING;
    o->seq->reuse.namespace = *ns;
    o->seq->max_tokens = MOST - TOKENS;
    o->seq->context.ctx = 512;
    for (uint32_t i = 0; i < TOKENS; i++) assert_int_equal(tokens_push(&o->seq->prompt.tokens, token(seed, i), i), 0);
}

static void one_end(struct fixture *f, struct one *o)
{
    reuse_end(&f->cache, o->seq);
    o->seq = seq_free(o->seq);
}

/* Its tokens from @from on become those of @seed. */
static void change(struct one *o, uint32_t from, unsigned seed)
{
    for (uint32_t i = from; i < TOKENS; i++) o->seq->prompt.tokens.ids[i] = token(seed, i);
}

/* Compute what is not. */
static void compute(struct fixture *f, struct one *o)
{
    struct seq *s = o->seq;
    uint8_t want[TOKENS] = {0};
    const uint32_t *table = s->kv.tables[0].ids;
    uint32_t n = TOKENS - s->kv.n_tokens;
    assert_true(n > 0);
    want[n - 1] = WANT_LOGITS;
    const struct batch_entry e = {
        .blocks = &table, .pos = s->kv.n_tokens, .n = n, .tokens = seq_ids(s) + s->kv.n_tokens, .want = want};
    assert_int_equal(f->model.backend->ops->forward(f->model.backend, &e, 1, o->row, NULL), 0);
    s->kv.n_tokens = TOKENS;
    reuse_advance(&f->cache, s);
}

static void begin(struct fixture *f, struct one *o)
{
    assert_int_equal(reuse_begin(&f->cache, o->seq), 0);
    compute(f, o);
}

/* The same tokens, computed where nobody has them, give the same logits. */
static void assert_as_alone(struct fixture *f, const struct one *o)
{
    static unsigned namespaces;
    struct prefix_namespace ns = {{0}};
    struct one alone;
    namespaces++;
    memcpy(ns.bytes, &namespaces, sizeof(namespaces));
    one_new(&alone, &ns, 0);
    memcpy(alone.seq->prompt.tokens.ids, seq_ids(o->seq), TOKENS * sizeof(int32_t));
    assert_int_equal(reuse_begin(&f->cache, alone.seq), 0);
    assert_int_equal(alone.seq->kv.n_tokens, 0);
    compute(f, &alone);
    assert_memory_equal(alone.row, o->row, f->model.vocab * sizeof(float));
    one_end(f, &alone);
}

/* Drop the KV of the last token, and compute it again from what the blocks have. */
static void assert_unharmed(struct fixture *f, struct one *o)
{
    float before[VOCAB];
    memcpy(before, o->row, sizeof(before));
    memset(o->row, 0, sizeof(o->row));
    o->seq->kv.n_tokens = TOKENS - 1;
    compute(f, o);
    assert_memory_equal(before, o->row, f->model.vocab * sizeof(float));
}

static void assert_own(struct fixture *f, const struct seq *s, uint32_t n)
{
    assert_int_equal(s->kv.n_tokens, n);
    assert_int_equal(s->kv.tables[0].n_blocks, kv_table_blocks(MOST - 1));
    assert_int_equal(s->reuse.indexed, n / KV_BLOCK < 2 ? n / KV_BLOCK * KV_BLOCK : 2 * KV_BLOCK);
    for (uint32_t i = n / KV_BLOCK; i < s->kv.tables[0].n_blocks; i++)
        assert_int_equal(kv_pool_refs(f->cache.pools[0], s->kv.tables[0].ids[i]), 1);
    prefix_check(f->cache.prefix);
}

/* At each position: blocks that only the index has beside it, or another sequence, too. */
static void test_every_position(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++)
        for (uint32_t n = 0; n <= TOKENS; n++) {
            struct fixture f;
            struct one a, b;
            start(&f, 1 << 20);
            one_new(&b, &f.namespace, 1);
            if (shared) begin(&f, &b);
            one_new(&a, &f.namespace, 1);
            begin(&f, &a);
            assert_int_equal(a.seq->reuse.indexed, 2 * KV_BLOCK);
            assert_int_equal(seq_truncate_kv(&f.cache, a.seq, TOKENS + 1), 0);
            assert_int_equal(a.seq->kv.n_tokens, TOKENS);
            assert_int_equal(seq_truncate_kv(&f.cache, a.seq, n), 0);
            assert_own(&f, a.seq, n);
            change(&a, n, 2);
            if (n < TOKENS) compute(&f, &a);
            assert_as_alone(&f, &a);
            if (shared) assert_unharmed(&f, &b);
            if (!shared) begin(&f, &b); /* finds in the index what was truncated */
            assert_true(b.seq->reuse.indexed == 2 * KV_BLOCK);
            assert_as_alone(&f, &b);
            one_end(&f, &a);
            one_end(&f, &b);
            stop(&f);
        }
}

/* The index keeps what a sequence had computed, so that it can go back to it. */
static void test_back_and_forth(void **state)
{
    (void)state;
    struct fixture f;
    struct one a, b;
    start(&f, 1 << 20);
    one_new(&a, &f.namespace, 1);
    begin(&f, &a);
    for (unsigned i = 0; i < 200; i++) {
        harness_seed = i;
        uint32_t n = harness_draw(TOKENS);
        assert_int_equal(seq_truncate_kv(&f.cache, a.seq, n), 0);
        assert_own(&f, a.seq, n);
        change(&a, n, 1 + harness_draw(4));
        compute(&f, &a);
        if (i % 10 == 0) assert_as_alone(&f, &a);
    }
    one_new(&b, &f.namespace, 1);
    memcpy(b.seq->prompt.tokens.ids, seq_ids(a.seq), TOKENS * sizeof(int32_t));
    assert_int_equal(reuse_known(&f.cache, b.seq), 2 * KV_BLOCK);
    one_end(&f, &a);
    assert_int_equal(reuse_known(&f.cache, b.seq), TOKENS - 1);
    begin(&f, &b);
    assert_as_alone(&f, &b);
    one_end(&f, &b);
    stop(&f);
}

/* Without a free block for the copy: it ends before the block, and can be preempted. */
static void test_no_room(void **state)
{
    (void)state;
    struct fixture f;
    struct one a, b;
    uint32_t rest[64], n = 0;
    start(&f, 100 << 10);
    assert_true(f.blocks < 64);
    one_new(&a, &f.namespace, 1);
    one_new(&b, &f.namespace, 1);
    begin(&f, &a);
    begin(&f, &b); /* shares two blocks with it */
    while (kv_pool_take(f.cache.pools[0], &rest[n]) == 0) n++;
    assert_int_equal(seq_truncate_kv(&f.cache, a.seq, 40), -ENOBUFS);
    assert_int_equal(a.seq->kv.n_tokens, 32);
    assert_int_equal(a.seq->reuse.indexed, 32);
    reuse_end(&f.cache, a.seq);
    assert_unharmed(&f, &b);
    while (n) kv_pool_unref(f.cache.pools[0], rest[--n]);
    begin(&f, &a);
    assert_int_equal(a.seq->reuse.indexed, 2 * KV_BLOCK);
    assert_as_alone(&f, &a);
    one_end(&f, &a);
    one_end(&f, &b);
    stop(&f);
}

/* Blocks that were rotated out cannot be had again. */
static void test_rotated(void **state)
{
    (void)state;
    struct fixture f;
    struct one a;
    start(&f, 1 << 20);
    one_new(&a, &f.namespace, 1);
    begin(&f, &a);
    a.seq->context.policy = PROTO_CONTEXT_ROTATE;
    a.seq->context.ctx = 64;
    assert_int_equal(seq_truncate_kv(&f.cache, a.seq, 70), -EOPNOTSUPP);
    assert_int_equal(a.seq->kv.n_tokens, TOKENS);
    a.seq->context.ctx = TOKENS;
    assert_int_equal(seq_truncate_kv(&f.cache, a.seq, 70), 0);
    a.seq->context.ctx = 512;
    one_end(&f, &a);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_position),
        cmocka_unit_test(test_back_and_forth),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_rotated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

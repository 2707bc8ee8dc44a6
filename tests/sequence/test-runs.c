/* SPDX-License-Identifier: MIT */
/*
 * Runs of embeddings through the engine. In place of some tokens a prompt gets runs of these tokens' own embeddings, so
 * that the answers have to be those of the tokens, bit for bit, whatever is found, evicted, preempted or read from
 * disk.
 */
#include "daemon/engine/state.h"
#include "tests/sequence/scripted-runs.h"
#include <errno.h>
#include <stdio.h>

#define BLOCK (2u * 32 * 2 * 2 * 16 * 2) /* bytes, in all layers */

/* --- the same bits --- */

static void compare(struct harness *h, unsigned words, uid_t uid)
{
    char doc[4096];
    harness_text(doc, sizeof(doc), words, words);
    struct answer *tokens = script_ask(h, false, uid, doc, " one?"), *cold = script_ask(h, true, uid + 1, doc, " one?");
    uint64_t n = cold->last.usage_prompt;
    assert_int_equal(cold->last.usage_cached, 0);
    assert_int_equal(tokens->last.usage_prompt, n);
    assert_same(tokens, cold);
    struct answer *warm = script_ask(h, true, uid + 1, doc, " one?");
    assert_int_equal(warm->last.usage_cached, n - 1);
    assert_same(tokens, warm);
    struct answer *other = script_ask(h, true, uid + 1, doc, " and two");
    assert_same(script_ask(h, false, uid, doc, " and two"), other);
    if (!script.at_end) assert_true(other->last.usage_cached + 12 > n);
    warm = script_ask(h, false, uid + 1, doc, " one?"); /* the tokens, where the runs are in the cache */
    assert_in_range(warm->last.usage_cached, h->engine->core.cache.n_groups > 1 ? 0 : FIRST_RUN, FIRST_RUN);
    assert_same(tokens, warm);
}

static void test_same_bits(void **state)
{
    struct harness *h = *state;
    static const uint32_t batches[] = {512, 37, 9, 1};
    for (uint32_t b = 0; b < 4; b++) {
        h->config.batch_tokens = batches[b];
        h->config.threads = 1 + b % 2;
        h->config.kv_type = b == 1 ? KERN_KV_F32 : KERN_KV_F16;
        harness_start(h);
        compare(h, 200, 1000);
        compare(h, 60, 1010);
        script.at_end = true;
        compare(h, 90, 1020);
        harness_stop(h);
        script_reset();
    }
}

/* A model with a KV group of its own for windows, whose embeddings are scaled. Its images are computed in another way
 * than tokens (test-whole-runs.c), its sounds are not. */
static void test_windows(void **state)
{
    struct harness h;
    struct tiny t;
    (void)state;
    tiny_init(&t);
    t.arch = "gemma3";
    t.ctx = 2048;
    harness_init(&h, &t);
    h.config.batch_tokens = 64;
    harness_start(&h);
    assert_int_equal(h.engine->core.cache.n_groups, 2);
    assert_true(h.engine->core.model.backend->hparams.scale.embedding != 1);
    script.kind = ITEM_SOUND;
    compare(&h, 200, 1000);
    script.at_end = true;
    compare(&h, 90, 1020);
    harness_fini(&h);
    script_reset();
}

/* Several answers each, at once, with too little memory for all. */
static void crowd(struct harness *h)
{
    harness_start(h);
    harness_hold(h);
    for (unsigned i = 0; i < 6; i++) {
        char doc[2048];
        harness_text(doc, sizeof(doc), 70 + i % 2, 60);
        struct proto_request r = harness_seeded(doc);
        r.gen.sampling.seed = 40 + i;
        r.gen.n = 1 + i % 3;
        r.gen.max_tokens = 60 + 50 * i;
        harness_submit_as(h, 1 + i, 1000 + i % 3, &r);
    }
    harness_go(h);
    for (uint64_t id = 1; id <= h->n; id++) harness_wait(h, id);
    assert_true(harness_status(h, 0, "preemptions") > 0);
    assert_all_blocks_free(h);
}

static void test_preemption_and_siblings(void **state)
{
    struct harness *h = *state;
    struct kept tokens;
    h->forgetful = true;
    h->config.parallel = 3;
    h->config.kv_bytes = 30 * BLOCK;
    h->config.batch_tokens = 50;
    crowd(h);
    kept_take(&tokens, h);
    harness_stop(h);
    script.runs = true;
    crowd(h);
    kept_compare(&tokens, h);
    harness_stop(h);
    script_reset();
}

/* --- disk and sessions --- */

static void test_restart(void **state)
{
    struct harness *h = *state;
    struct kept first;
    char doc[4096];
    harness_text(doc, sizeof(doc), 4, 150);
    harness_dirs(h);
    harness_start(h);
    harness_wait_disk(h);
    uint64_t n = script_ask(h, true, 1000, doc, "")->last.usage_prompt;
    kept_take(&first, h);
    harness_stop(h);
    harness_start(h);
    harness_wait_disk(h);
    struct answer *a = script_ask(h, false, 1000, doc, "");
    assert_in_range(a->last.usage_cached, 0, FIRST_RUN);
    assert_same(a, &first.answers[1]);
    harness_stop(h);
    harness_start(h);
    harness_wait_disk(h);
    a = script_ask(h, true, 1000, doc, "");
    assert_int_equal(a->last.usage_cached, n - 1);
    assert_true(harness_status(h, 0, "disk_read") > 0);
    kept_compare(&first, h);
    harness_stop(h);
    script_reset();
}

/* A turn of a raw session. */
static struct answer *turn(struct harness *h, bool runs, uid_t uid, unsigned n, enum proto_context policy)
{
    char doc[2048];
    harness_text(doc, sizeof(doc), 80 + n, n == 0 ? 100 : 30);
    struct proto_request r = harness_seeded(doc);
    assert_int_equal(proto_text_set(&r.gen.session, "talk", 4), 0);
    r.gen.context = policy;
    script.runs = runs;
    return harness_wait(h, harness_submit_as(h, 1, uid, &r));
}

static void evict_all(struct harness *h)
{
    harness_hold(h);
    struct kv_cache *c = &h->engine->core.cache;
    assert_true(kv_cache_make_room(c, 0, kv_pool_total(c->pools[0])));
    prefix_check(c->prefix);
    harness_go(h);
}

/* A session's runs go on without embeddings where the cache has their KV, and nowhere else. */
static void test_sessions(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    for (unsigned n = 0; n < 3; n++) {
        script.forget = n < 2;
        if (n == 2) {
            evict_all(h);
            script.forget = true;
            assert_error(turn(h, true, 1000, n, PROTO_CONTEXT_UNSET), ENODATA, "embeddings are not available");
            script.forget = false;
        }
        struct answer *a = turn(h, true, 1000, n, PROTO_CONTEXT_UNSET),
                      *b = turn(h, false, 1001, n, PROTO_CONTEXT_UNSET);
        assert_done(a, PROTO_STOP_LENGTH);
        assert_same(a, b);
        assert_int_equal(a->last.usage_prompt, b->last.usage_prompt);
        if (n == 1) assert_true(a->last.usage_cached > 100);
        if (n == 2) assert_int_equal(a->last.usage_cached, 0);
    }
    harness_stop(h);
    script_reset();
}

static void test_session_after_a_restart(void **state)
{
    struct harness *h = *state;
    harness_dirs(h);
    for (unsigned n = 0; n < 3; n++) {
        harness_start(h);
        harness_wait_disk(h);
        script.forget = true;
        struct answer *a = turn(h, true, 1000, n, PROTO_CONTEXT_UNSET),
                      *b = turn(h, false, 1001, n, PROTO_CONTEXT_UNSET);
        assert_done(a, PROTO_STOP_LENGTH);
        assert_same(a, b);
        if (n) assert_true(a->last.usage_cached > 100);
        harness_stop(h);
    }
    script_reset();
}

/* --- context policies --- */

/* A shift leaves out the middle, and with it all of each run that has items there. */
static bool stays(const struct seq *s, const struct items *all, uint32_t i)
{
    const struct seq_context *c = &s->context;
    const struct item_run *r = items_run_at(all, i);
    const uint64_t from = c->keep, to = from + seq_shift(all->n, c->ctx, c->keep);
    const uint32_t first = r ? r->at : i, last = r ? r->at + r->n - 1 : i;
    return last < from || first >= to;
}

/* The view has the items that stay, and each of its runs is whole. */
static void check_view(const struct seq *s)
{
    const struct seq_context *c = &s->context;
    const struct items all = prompt_items(&s->prompt), view = seq_items(s);
    assert_true(items_check(&view));
    assert_true(view.n > 0 && view.n < c->ctx && c->shifted == all.n - view.n);
    uint32_t n_runs = 0, n = 0;
    for (uint32_t i = 0; i < all.n; i++)
        if (stays(s, &all, i)) assert_int_equal(view.ids[n++], all.ids[i]);
    assert_int_equal(n, view.n);
    for (uint32_t i = 0; i < all.n_runs; i++) {
        const struct item_run *r = &all.runs[i];
        for (uint32_t k = 0; k < view.n_runs; k++) {
            if (memcmp(view.runs[k].digest, r->digest, 16) != 0) continue;
            assert_int_equal(view.runs[k].n, r->n);
            assert_true(view.runs[k].at == r->at || view.runs[k].at + c->shifted == r->at);
            n_runs++;
        }
    }
    assert_int_equal(n_runs, view.n_runs);
    assert_memory_equal(view.ids + view.n - 1, all.ids + all.n - 1, sizeof(*all.ids));
}

/* Prompts of all lengths, with runs at random places. */
static void test_views(void **state)
{
    struct harness *h = *state; /* no engine is needed */
    (void)h;
    srandom(5);
    for (int round = 0; round < 300; round++) {
        struct seq s = {.context = {.policy = PROTO_CONTEXT_SHIFT, .ctx = 64 + (uint32_t)random() % 100}};
        s.context.keep = s.context.ctx / 4;
        uint32_t length = s.context.ctx + (uint32_t)random() % 300;
        while (s.prompt.tokens.n < length) {
            struct item_run run = {.n = 1 + (uint32_t)random() % 50, .kind = ITEM_IMAGE};
            memcpy(run.digest, &s.prompt.runs.n, sizeof(s.prompt.runs.n));
            for (long k = random() % 20; k >= 0; k--) assert_int_equal(tokens_push(&s.prompt.tokens, 7, 0), 0);
            if (random() % 3) assert_int_equal(prompt_push_run(&s.prompt, run, 0, NULL), 0);
        }
        const bool ends_in_run = s.prompt.tokens.ids[s.prompt.tokens.n - 1] == ITEM_EMBD;
        int r = seq_make_view(&s);
        if (r == 0)
            check_view(&s);
        else
            assert_true(r == -E2BIG && ends_in_run && !s.context.view);
        assert_int_equal(tokens_push(&s.prompt.tokens, 8, 0), 0);
        assert_int_equal(seq_make_view(&s), 0);
        check_view(&s);
        prompt_fini(&s.prompt);
        run_list_fini(&s.context.view_runs);
        free(s.context.view);
    }
}

/* The same turns in other steps: which items a shift leaves out depends on the items alone. */
static void test_shift(void **state)
{
    struct harness *h = *state;
    struct kept first = {.n = 0};
    h->config.ctx = 160;
    for (uint32_t pass = 0; pass < 2; pass++) {
        h->config.batch_tokens = pass ? 9 : 512;
        h->config.threads = 1 + pass;
        harness_start(h);
        uint64_t shifted = 0;
        for (unsigned n = 0; n < 5; n++) {
            if (pass && n % 2) evict_all(h); /* what a shift leaves is computed from the embeddings again */
            struct answer *a = turn(h, true, 1000, n, PROTO_CONTEXT_SHIFT);
            assert_done(a, PROTO_STOP_LENGTH);
            assert_true(a->last.cut.shifted >= shifted);
            shifted = a->last.cut.shifted;
        }
        assert_true(shifted > 100);
        if (pass)
            kept_compare(&first, h);
        else
            kept_take(&first, h);
        harness_stop(h);
    }
    script_reset();
}

static void test_rotate(void **state)
{
    struct harness *h = *state;
    h->config.ctx = 160;
    harness_start(h);
    assert_error(turn(h, true, 1000, 0, PROTO_CONTEXT_ROTATE), EOPNOTSUPP, "cannot rotate");
    assert_done(turn(h, false, 1001, 0, PROTO_CONTEXT_ROTATE), PROTO_STOP_LENGTH);
    harness_stop(h);
    script_reset();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_same_bits),
        cmocka_unit_test(test_windows),
        TEST(test_preemption_and_siblings),
        TEST(test_restart),
        TEST(test_sessions),
        TEST(test_session_after_a_restart),
        TEST(test_views),
        TEST(test_shift),
        TEST(test_rotate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

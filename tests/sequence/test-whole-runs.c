/* SPDX-License-Identifier: MIT */
/*
 * Runs of embeddings through the engine, with a model whose images are computed whole: an answer is near the
 * independent pass's, and the same bits whatever is in the batch, found, evicted, preempted or read from disk, also
 * where the cached prefix ends inside a run.
 */
#include "daemon/engine/state.h"
#include "daemon/reference/reference.h"
#include "libcommon/error.h"
#include "tests/sequence/scripted-runs.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>

#define BLOCK (2u * 7 * 2 * 24 * 2 * KV_BLOCK) /* bytes, in all layers, of gemma3 in tiny-arch.c */

static int setup(void **state)
{
    struct harness *h = calloc(1, sizeof(*h));
    struct tiny t;
    tiny_init(&t);
    t.arch = "gemma3";
    t.type = 0;
    t.ctx = 2048;
    harness_init(h, &t);
    h->config.kv_bytes = 300 * BLOCK;
    *state = h;
    return 0;
}

static int teardown(void **state)
{
    harness_fini(*state);
    free(*state);
    script_reset();
    return 0;
}

/* --- beside the independent pass --- */

/* Behind the last item that each item of @p sees, if the items of images see each other; their rows in @embd. */
static void describe(const struct prompt *p, uint32_t dim, uint32_t *ends, float *embd)
{
    for (uint32_t i = 0; i < p->tokens.n; i++) ends[i] = i + 1;
    for (uint32_t k = 0; k < p->runs.n; k++) {
        const struct item_run *r = &p->runs.runs[k];
        memcpy(embd + (size_t)r->at * dim, p->runs.embd[k]->values, (size_t)r->n * dim * sizeof(*embd));
        for (uint32_t i = r->at; r->kind == ITEM_IMAGE && i < r->at + r->n; i++) ends[i] = r->at + r->n;
    }
}

/* The greedy answer @a to @p: each token is one of the best of the reference, with the log-probability it has there. */
static void check_answer(const struct answer *a, const struct prompt *p, const char *path)
{
    struct gguf *g;
    struct reference *r;
    struct hparams y;
    const uint32_t known = (uint32_t)p->tokens.n, n = known + (uint32_t)a->n - 1;
    assert_int_equal(gguf_open(&g, path), 0);
    assert_int_equal(hparams_read(&y, g), 0);
    assert_int_equal(reference_new(&r, g), 0);
    int32_t *ids = malloc(n * sizeof(*ids));
    uint32_t *ends = malloc(n * sizeof(*ends));
    float *embd = calloc((size_t)n * y.dim, sizeof(*embd)), *logits = malloc((size_t)n * y.vocab * sizeof(*logits));
    assert_true(ids && ends && embd && logits);
    memcpy(ids, p->tokens.ids, known * sizeof(*ids));
    memcpy(ids + known, a->ids, (n - known) * sizeof(*ids));
    describe(p, y.dim, ends, embd);
    for (uint32_t i = known; i < n; i++) ends[i] = i + 1;
    assert_int_equal(reference_items(r, ids, embd, ends, n, logits), 0);
    for (size_t i = 0; i < a->n; i++) {
        const float *row = logits + (known - 1 + i) * (size_t)y.vocab;
        double sum = 0;
        float best = row[0];
        for (uint32_t v = 1; v < y.vocab; v++) best = fmaxf(best, row[v]);
        for (uint32_t v = 0; v < y.vocab; v++) sum += exp((double)row[v] - best);
        const double want = row[a->ids[i]] - best - log(sum), off = fabs(want - a->logprobs[i]);
        if (!(off < 1e-3) || best - row[a->ids[i]] > 1e-3)
            fail_msg("token %zu: %g, not %g", i, (double)a->logprobs[i], want);
    }
    free(ids);
    free(ends);
    free(embd);
    free(logits);
    reference_free(r);
    gguf_close(g);
}

static bool has_reference(const char *path)
{
    struct gguf *g;
    struct reference *r = NULL;
    assert_int_equal(gguf_open(&g, path), 0);
    int e = reference_new(&r, g);
    reference_free(r);
    gguf_close(g);
    return e == 0;
}

static void test_reference(void **state)
{
    struct harness *h = *state;
    char doc[4096];
    if (!has_reference(h->path)) {
        print_message("skipped: %s\n", error_text(-ENOENT));
        skip();
    }
    h->config.kv_type = KERN_KV_F32;
    harness_start(h);
    for (unsigned i = 0; i < 4; i++) {
        harness_text(doc, sizeof(doc), i, 60 + 50 * i);
        struct proto_request r = harness_raw(doc);
        script.runs = true;
        script.at_end = i % 2;
        script.kind = i == 2 ? ITEM_SOUND : 0;
        struct answer *a = harness_run(h, &r);
        assert_int_equal(a->last.type, PROTO_EV_DONE);
        assert_true(a->n > 0 && script_prompt()->runs.n > 1);
        check_answer(a, script_prompt(), h->path);
    }
}

/* --- the same bits --- */

/* Evict until @keep blocks are left. The engine is held. */
static void evict(struct harness *h, uint32_t keep)
{
    struct kv_cache *c = &h->engine->core.cache;
    assert_true(kv_cache_make_room(c, 0, kv_pool_total(c->pools[0]) - keep));
    prefix_check(c->prefix);
}

static bool in_image(uint64_t at)
{
    const struct items t = prompt_items(script_prompt());
    const struct item_run *r = at < t.n ? items_run_at(&t, (uint32_t)at) : NULL;
    return r && r->kind == ITEM_IMAGE && r->at < at;
}

/* Cold, warm, and with all lengths of cached prefixes. Returns how many of them ended inside an image. */
static uint32_t ask_again(struct harness *h, const struct answer *want, const char *doc, uid_t uid)
{
    uint32_t inside = 0;
    struct answer *a = script_ask(h, true, uid, doc, "");
    const uint64_t n = a->last.usage_prompt;
    assert_int_equal(a->last.usage_cached, 0);
    assert_same(want, a);
    for (uint32_t keep = 14; keep-- > 0; harness_forget(h)) {
        harness_hold(h);
        evict(h, keep);
        harness_go(h);
        a = script_ask(h, true, uid, doc, "");
        assert_same(want, a);
        assert_true(a->last.usage_cached <= (keep + 1) * KV_BLOCK);
        inside += in_image(a->last.usage_cached);
    }
    a = script_ask(h, true, uid, doc, "");
    assert_int_equal(a->last.usage_cached, n - 1);
    assert_same(want, a);
    harness_forget(h);
    harness_forget(h);
    return inside;
}

static void test_same_bits(void **state)
{
    struct harness *h = *state;
    struct answer want[2];
    uint32_t inside = 0;
    char doc[4096];
    harness_text(doc, sizeof(doc), 3, 170);
    harness_start(h);
    for (uint32_t end = 0; end < 2; end++) {
        script.at_end = end;
        struct answer *a = script_ask(h, true, 1000 + end, doc, "");
        want[end] = answer_take(a);
    }
    harness_stop(h);
    for (uint32_t k = 0; k < 4; k++) {
        h->config.threads = 1 + k;
        h->config.batch_tokens = 70 + 60 * k;
        h->config.one_group = k != 2;
        harness_start(h);
        for (uint32_t end = 0; end < 2; end++) {
            script.at_end = end;
            inside += ask_again(h, &want[end], doc, 1000 + end);
        }
        harness_stop(h);
    }
    assert_true(inside > 20);
    answer_fini(&want[0]);
    answer_fini(&want[1]);
}

/* Several answers each, at once. */
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
    assert_all_blocks_free(h);
}

/* Too little memory for all: preempted in turns, with less of the prompt in the cache each time. */
static void test_preemption_and_siblings(void **state)
{
    struct harness *h = *state;
    struct kept alone;
    script.runs = true;
    h->config.parallel = 1;
    crowd(h);
    kept_take(&alone, h);
    harness_stop(h);
    h->forgetful = true;
    h->config.parallel = 3;
    h->config.kv_bytes = 30 * BLOCK;
    h->config.batch_tokens = 95;
    h->config.threads = 2;
    crowd(h);
    assert_true(harness_status(h, 0, "preemptions") > 0);
    kept_compare(&alone, h);
}

/* Requests that are cancelled at any step leave nothing in the cache that another result would come from. */
static void test_cancelled(void **state)
{
    struct harness *h = *state;
    struct answer want;
    char doc[4096];
    harness_text(doc, sizeof(doc), 3, 170);
    h->config.batch_tokens = 80;
    harness_start(h);
    want = answer_take(script_ask(h, true, 1000, doc, ""));
    harness_forget(h);
    for (unsigned turns = 1; turns < 12; turns++) {
        harness_hold(h);
        evict(h, 0);
        struct proto_request r = harness_seeded(doc);
        uint64_t id = harness_submit_as(h, 9, 1000, &r);
        for (unsigned i = 0; i < turns; i++) harness_turn(h);
        engine_cancel(h->engine, 9, id);
        harness_go(h);
        harness_wait(h, id);
        harness_forget(h);
        struct answer *a = script_ask(h, true, 1000, doc, "");
        assert_same(&want, a);
        harness_forget(h);
    }
    answer_fini(&want);
}

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
    h->config.threads = 3;
    harness_start(h);
    harness_wait_disk(h);
    struct answer *a = script_ask(h, true, 1000, doc, "");
    assert_int_equal(a->last.usage_cached, n - 1);
    assert_true(harness_status(h, 0, "disk_read") > 0);
    kept_compare(&first, h);
}

/* --- steps that are too small --- */

static struct answer *submit(struct harness *h, const char *doc)
{
    struct proto_request r = harness_seeded(doc);
    script.runs = true;
    return harness_wait(h, harness_submit_as(h, 1, 1000, &r));
}

static void test_too_long(void **state)
{
    struct harness *h = *state;
    char doc[4096];
    harness_text(doc, sizeof(doc), 3, 170);
    for (uint32_t pass = 0; pass < 2; pass++) {
        h->config.batch_tokens = 89 + pass; /* the longest run has 90 items */
        harness_start(h);
        script.kind = ITEM_IMAGE;
        struct answer *a = submit(h, doc);
        if (pass)
            assert_done(a, PROTO_STOP_LENGTH);
        else
            assert_error(a, E2BIG,
                         "an image of 90 items: a 'gemma3' model computes all items of an image in one step, which "
                         "has 89 (the daemon's --batch-tokens)");
        script.kind = ITEM_SOUND;
        assert_done(submit(h, doc), PROTO_STOP_LENGTH);
        assert_all_blocks_free(h);
        harness_stop(h);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_reference), TEST(test_same_bits), TEST(test_preemption_and_siblings),
        TEST(test_cancelled), TEST(test_restart),   TEST(test_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

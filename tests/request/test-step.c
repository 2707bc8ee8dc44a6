/* SPDX-License-Identifier: MIT */
/* Covers step.c and plan.c: an answer depends on its own request and on nothing else. */
#include "tests/engine/harness.h"

static void test_raw_answer(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = harness_raw(harness_story);
    struct answer *a = harness_run(h, &r);
    assert_null(r.gen.prompt.data); /* taken */
    assert_done(a, PROTO_STOP_LENGTH);
    assert_int_equal(a->n, 16);
    assert_int_equal(a->last.usage_completion, 16);
    assert_true(a->last.usage_prompt > 10);
    assert_int_equal(a->last.usage_cached, 0);
    assert_int_equal(a->last.miss_at, -1);
    assert_int_equal(a->prefill_first, 0);
    assert_int_equal(a->prefill_last, a->last.usage_prompt);
    assert_int_equal(a->prefill_total, a->last.usage_prompt);
    for (size_t i = 0; i < a->n; i++) assert_true(a->logprobs[i] < 0 && a->logprobs[i] > -20);
    assert_int_equal(engine_load(h->engine), 0);
    assert_true(engine_progress(h->engine) >= 16);
}

/* The promise: company, chunking, threads change no bit. */
static void probe_with(struct harness *h, unsigned company, struct answer *keep)
{
    static const char *const others[] = {"a", "the sea and the house", "1 2 1 2 1 2", "she was", "you", "of it"};
    uint64_t ids[6];
    harness_start(h);
    for (unsigned i = 0; i < company; i++) {
        struct proto_request r = harness_raw(others[i]);
        r.gen.max_tokens = 5 + 9 * i;
        r.gen.sampling.temperature = 1;
        r.gen.sampling.seed = i;
        ids[i] = harness_submit_as(h, 2 + i, 1000 + i, &r);
    }
    struct proto_request r = harness_raw(harness_story);
    r.gen.sampling.temperature = 0.8f;
    r.gen.sampling.seed = 12;
    r.gen.max_tokens = 40;
    struct answer *a = harness_run(h, &r);
    assert_done(a, a->n == 40 ? PROTO_STOP_LENGTH : PROTO_STOP_EOS);
    for (unsigned i = 0; i < company; i++) harness_wait(h, ids[i]);
    if (!keep->ids) {
        *keep = answer_take(a);
    } else {
        assert_same(keep, a);
    }
    harness_stop(h);
}

static void test_only_the_request_matters(void **state)
{
    struct harness *h = *state;
    static const uint32_t batches[] = {512, 1, 7, 32};
    static const enum kern_kv kvs[] = {KERN_KV_F16, KERN_KV_F32};
    for (int k = 0; k < 2; k++) {
        struct answer keep = {0};
        h->config.kv_type = kvs[k];
        for (uint32_t threads = 1; threads <= 2; threads++)
            for (int b = 0; b < 4; b++)
                for (unsigned company = 0; company <= 6; company += 6) {
                    h->config.threads = threads;
                    h->config.batch_tokens = batches[b];
                    probe_with(h, company, &keep);
                }
        answer_fini(&keep);
    }
}

static void test_seed(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct answer *a[4];
    const int64_t seeds[] = {5, 5, 6, -1};
    for (int i = 0; i < 4; i++) {
        struct proto_request r = harness_raw("the");
        r.gen.sampling.temperature = 2;
        r.gen.sampling.seed = seeds[i];
        r.gen.max_tokens = 30;
        a[i] = harness_run(h, &r);
    }
    assert_same(a[0], a[1]);
    assert_int_equal(a[0]->last.seed, 5);
    assert_true(a[0]->n != a[2]->n || memcmp(a[0]->ids, a[2]->ids, a[0]->n * sizeof(int32_t)) != 0);
    assert_true(a[3]->last.seed >= 0);
    struct proto_request r = harness_raw("the");
    r.gen.sampling.temperature = 2;
    r.gen.sampling.seed = a[3]->last.seed;
    r.gen.max_tokens = 30;
    assert_same(a[3], harness_run(h, &r));
}

static void test_without_logprobs_same_text(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = harness_raw(harness_story), q = harness_raw(harness_story);
    q.gen.logprobs = false;
    struct answer *a = harness_run(h, &r), *b = harness_run(h, &q);
    assert_int_equal(b->n, 0);
    assert_int_equal(a->text.len, b->text.len);
    assert_memory_equal(a->text.data, b->text.data, a->text.len);
    assert_int_equal(a->texts, 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_raw_answer, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_only_the_request_matters, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_seed, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_without_logprobs_same_text, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

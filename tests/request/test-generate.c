/* SPDX-License-Identifier: MIT */
/* Covers generate.c and fork-answers.c: several answers to one prompt, each as if it were alone; the prompt is computed
 * once.
 */
#include "tests/engine/harness.h"
#include <errno.h>

#define N 4

static struct proto_request ask(uint32_t n)
{
    struct proto_request r = harness_raw(harness_story);
    r.gen.n = n;
    r.gen.sampling.temperature = 1.5f;
    r.gen.sampling.top_k = 0;
    r.gen.sampling.top_p = 1;
    r.gen.sampling.min_p = 0;
    r.gen.sampling.seed = 42;
    r.gen.ignore_eos = true;
    return r;
}

static struct answer *run_as(struct harness *h, uid_t uid, struct proto_request *r)
{
    uint32_t n = r->gen.n;
    uint64_t id = harness_submit_as(h, 1, uid, r);
    for (uint32_t i = 0; i < n; i++) harness_wait(h, id + i);
    return &h->answers[id];
}

static void test_streams_of_their_own(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = ask(1), several = ask(N);
    struct answer *one = run_as(h, 1000, &r), *all = run_as(h, 1001, &several);
    assert_same(one, &all[0]);
    for (int i = 0; i < N; i++) {
        assert_done(&all[i], PROTO_STOP_LENGTH);
        assert_int_equal(all[i].last.index, i);
        assert_int_equal(all[i].last.usage_completion, 16);
        assert_int_equal(all[i].last.usage_prompt, one->last.usage_prompt);
        assert_int_equal(all[i].last.usage_cached, 0);
        assert_int_equal(all[i].last.seed, 42);
        assert_true(all[i].last.ttft_ms > 0 && all[i].last.prefill_ms > 0);
        for (int k = 0; k < i; k++) assert_memory_not_equal(all[i].ids, all[k].ids, 16 * sizeof(*all[i].ids));
    }
    assert_int_equal(all[1].prefill_n + all[1].queued_n, 0); /* the prompt is the first one's */
    struct proto_request fewer = ask(2);
    struct answer *two = run_as(h, 1002, &fewer);
    for (int i = 0; i < 2; i++) assert_same(&all[i], &two[i]);
}

/* Tokens that go through the model: the prompt once, and each one sampled but the last. */
static void test_prompt_is_computed_once(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = ask(N);
    r.speculate = PROTO_SPECULATE_OFF; /* or proposed tokens go through it, too */
    struct answer *all = run_as(h, 1000, &r);
    long long prompt = (long long)all[0].last.usage_prompt;
    assert_true(prompt % 32 > 2); /* some of it is in a block that each of them continues */
    assert_int_equal(harness_status(h, 0, "tokens_computed"), prompt + N * 15);
    assert_int_equal(harness_status(h, 0, "requests"), 1);
    assert_int_equal(harness_status(h, 0, "tokens_prompt"), prompt);
    assert_int_equal(harness_status(h, 0, "tokens_generated"), N * 16);
    assert_all_blocks_free(h);
}

/* Fewer slots than answers: one after another, between other people's. */
static void test_more_than_there_are_slots(void **state)
{
    struct harness *h = *state;
    h->config.parallel = 16;
    harness_start(h);
    struct proto_request r = ask(N);
    struct answer *wide = run_as(h, 1000, &r);
    struct answer kept[N];
    for (int i = 0; i < N; i++) kept[i] = answer_take(&wide[i]);
    harness_stop(h);
    h->config.parallel = 2;
    harness_start(h);
    struct proto_request other = ask(1);
    r = ask(N);
    uint64_t id = harness_submit_as(h, 1, 1000, &r), alone = harness_submit_as(h, 2, 2000, &other);
    assert_same(&kept[0], harness_wait(h, alone));
    for (int i = 0; i < N; i++) {
        assert_same(&kept[i], harness_wait(h, id + (uint64_t)i));
        const struct proto_event *done = &h->answers[id + (uint64_t)i].last;
        assert_true(done->ttft_ms <= done->queue_ms + done->prefill_ms + done->decode_ms);
        answer_fini(&kept[i]);
    }
}

/* The first token ends some of them at once, and a stop string is each one's own. */
static void test_ends_of_their_own(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = ask(N);
    struct answer *all = run_as(h, 1000, &r);
    assert_true(all[2].text.len > 2);
    struct proto_request stops = ask(N), single = ask(N);
    assert_int_equal(proto_text_set(&stops.gen.stop[0], all[2].text.data, all[2].text.len), 0);
    stops.gen.n_stop = 1;
    struct answer *cut = run_as(h, 1000, &stops);
    assert_done(&cut[2], PROTO_STOP_EOS);
    assert_int_equal(cut[2].text.len, 0);
    assert_same(&cut[1], &all[1]);
    assert_done(&cut[1], PROTO_STOP_LENGTH);
    single.gen.max_tokens = 1;
    struct answer *short_ones = run_as(h, 1000, &single);
    for (int i = 0; i < N; i++) assert_int_equal(short_ones[i].ids[0], all[i].ids[0]);
}

/* One slot: who waits for the one before is not said to have been writing. */
static void test_waiting_is_told(void **state)
{
    struct harness *h = *state;
    h->config.parallel = 1;
    harness_start(h);
    struct proto_request r = ask(2);
    struct answer *all = run_as(h, 1000, &r);
    const struct proto_event *a = &all[0].last, *b = &all[1].last;
    assert_true(b->ttft_ms >= a->ttft_ms);
    assert_true(b->queue_ms > a->queue_ms);
    assert_true(b->queue_ms + b->prefill_ms + b->decode_ms > a->queue_ms + a->prefill_ms + a->decode_ms);
}

static void test_cancel_ends_all(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = ask(N);
    r.gen.max_tokens = 1500;
    uint64_t id = harness_submit(h, &r);
    harness_wait_texts(h, id + N - 1, 2);
    engine_cancel(h->engine, 1, id);
    for (int i = 0; i < N; i++) assert_done(harness_wait(h, id + (uint64_t)i), PROTO_STOP_CANCEL);
    assert_int_equal(engine_load(h->engine), 0);
}

static void test_refused(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = ask(N), many = ask(2);
    assert_int_equal(proto_text_set(&r.gen.session, "s", 1), 0);
    assert_error(harness_wait(h, harness_submit(h, &r)), EINVAL, "n cannot be used with a session");
    many.gen.n = PROTO_ANSWERS_MAX + 1;
    assert_error(harness_wait(h, harness_submit(h, &many)), EINVAL, "n is more than 32");
}

/* @n answers of @r as a pool of @kv_bytes and @parallel slots give them: copies, for answer_fini. */
static void answers_in(struct harness *h, struct proto_request r, uint32_t parallel, uint64_t kv_bytes,
                       struct answer *out)
{
    uint32_t n = r.gen.n;
    h->config.parallel = parallel;
    h->config.kv_bytes = kv_bytes;
    harness_start(h);
    struct answer *all = run_as(h, 1000, &r);
    for (uint32_t i = 0; i < n; i++) out[i] = answer_take(&all[i]);
    assert_int_equal(engine_load(h->engine), 0);
    assert_all_blocks_free(h);
    harness_stop(h);
}

/* A context that fills up in all of them, with room for each, and with room and a slot for one. */
static void full_contexts(struct harness *h, enum proto_context policy)
{
    struct tiny t;
    struct answer wide[N], narrow[N];
    harness_fini(h);
    tiny_init(&t);
    t.ctx = 128;
    harness_init(h, &t);
    for (int k = 0; k < 2; k++) {
        struct proto_request r = ask(N);
        r.gen.context = policy;
        r.gen.max_tokens = 300;
        answers_in(h, r, k ? 1 : 16, k ? 400 << 10 : 4 << 20, k ? narrow : wide);
    }
    for (int i = 0; i < N; i++) {
        assert_done(&wide[i], PROTO_STOP_LENGTH);
        assert_int_equal(wide[i].n, 300);
        assert_int_equal(wide[i].last.cut.shifted > 0, policy == PROTO_CONTEXT_SHIFT);
        assert_same(&wide[i], &narrow[i]);
        answer_fini(&wide[i]);
        answer_fini(&narrow[i]);
    }
}

static void test_shift(void **state)
{
    full_contexts(*state, PROTO_CONTEXT_SHIFT);
}

static void test_rotate(void **state)
{
    full_contexts(*state, PROTO_CONTEXT_ROTATE);
}

/* They begin with blocks that all have, and each needs others in their place when its context rotates: where there are
 * none, one waits for another's end. */
static void test_rotate_out_of_shared_blocks(void **state)
{
    static const uint64_t blocks[] = {512, 16, 21, 22, 26, 28};
    struct harness *h = *state;
    struct tiny t;
    struct answer wide[N], narrow[N];
    char prompt[512] = "";
    while (strlen(prompt) < 380) strcat(prompt, harness_story);
    harness_fini(h);
    tiny_init(&t);
    t.ctx = 256;
    harness_init(h, &t);
    h->config.batch_tokens = 32;
    for (size_t k = 0; k < sizeof(blocks) / sizeof(*blocks); k++) {
        struct proto_request r = harness_raw(prompt);
        r.gen.sampling.temperature = 1.5f;
        r.gen.sampling.seed = 42;
        r.gen.n = N;
        r.gen.context = PROTO_CONTEXT_ROTATE;
        r.gen.max_tokens = 300;
        r.gen.ignore_eos = true;
        answers_in(h, r, 16, blocks[k] * 8192, k ? narrow : wide);
        for (int i = 0; i < N && k; i++) {
            assert_done(&narrow[i], PROTO_STOP_LENGTH);
            assert_same(&wide[i], &narrow[i]);
            answer_fini(&narrow[i]);
        }
    }
    for (int i = 0; i < N; i++) answer_fini(&wide[i]);
}

/* The cache keeps nothing of a prompt beyond the context, so that each preemption loses what a slot has computed: two
 * users who share one slot come to their ends nevertheless. */
static void test_rotate_in_turns(void **state)
{
    struct harness *h = *state;
    struct tiny t;
    struct answer *a[2];
    uint64_t id[2];
    char prompt[16384];
    harness_fini(h);
    tiny_init(&t);
    t.ctx = 256;
    harness_init(h, &t);
    h->config.parallel = 1;
    h->config.batch_tokens = 64;
    h->forgetful = true;
    harness_start(h);
    harness_hold(h);
    for (uint32_t i = 0; i < 2; i++) {
        harness_text(prompt, sizeof(prompt), i, 1000);
        struct proto_request r = harness_raw(prompt);
        r.gen.context = PROTO_CONTEXT_ROTATE;
        r.gen.ignore_eos = true;
        id[i] = harness_submit_as(h, 1 + i, 1000 + i, &r);
    }
    harness_go(h);
    for (uint32_t i = 0; i < 2; i++) {
        a[i] = harness_wait(h, id[i]);
        assert_done(a[i], PROTO_STOP_LENGTH);
        assert_true(a[i]->last.usage_prompt > 1800);
    }
    assert_true(harness_status(h, 0, "preemptions") > 1);
}

/* Ended after @texts texts of the first one, by a cancel, a closed connection or a deadline. */
static void end_at(struct harness *h, unsigned texts, int how)
{
    struct proto_request r = ask(N);
    r.gen.max_tokens = 1500;
    r.gen.context = how == 1 ? PROTO_CONTEXT_ROTATE : PROTO_CONTEXT_SHIFT;
    if (how == 2) r.gen.timeout_ms = texts * 3;
    uint64_t id = harness_submit(h, &r);
    if (texts && how < 2) harness_wait_texts(h, id, texts);
    if (how == 0) engine_cancel(h->engine, 1, id);
    if (how == 1) engine_abandon(h->engine, 1, id);
    bool last = false;
    for (uint64_t i = id; i < id + N && !last; i++) last = !harness_wait(h, i)->last.more;
    assert_true(last); /* one ends for all while the prompt is read */
}

static void test_ends_at_any_point(void **state)
{
    static const uint64_t kv_bytes[] = {4 << 20, 480 << 10};
    struct harness *h = *state;
    struct tiny t;
    harness_fini(h);
    tiny_init(&t);
    t.ctx = 128;
    harness_init(h, &t);
    for (int k = 0; k < 2; k++) {
        h->config.parallel = k ? 2 : 16;
        h->config.kv_bytes = kv_bytes[k];
        for (int how = 0; how < 3; how++) {
            harness_start(h);
            for (unsigned texts = 0; texts < 140; texts += 10) end_at(h, texts, how);
            assert_int_equal(engine_load(h->engine), 0);
            assert_int_equal(harness_status(h, 0, "running") + harness_status(h, 0, "queued"), 0);
            assert_all_blocks_free(h);
            harness_stop(h);
        }
    }
}

static void test_warm(void **state)
{
    struct harness *h = *state;
    char doc[4096];
    harness_text(doc, sizeof(doc), 8, 150);
    harness_start(h);
    struct proto_request r = harness_seeded(doc);
    r.type = PROTO_WARM;
    struct answer *a = harness_run(h, &r);
    assert_int_equal(a->last.type, PROTO_EV_DONE);
    assert_int_equal(a->n, 0);
    assert_int_equal(a->last.usage_completion, 0);
    struct answer *b = harness_run_seeded(h, 1000, doc, "");
    assert_int_equal(b->last.usage_cached, b->last.usage_prompt - 1);
    assert_same(b, harness_run_seeded(h, 1001, doc, ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_streams_of_their_own, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_prompt_is_computed_once, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_more_than_there_are_slots, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_ends_of_their_own, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_waiting_is_told, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_cancel_ends_all, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_refused, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_shift, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_rotate, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_rotate_out_of_shared_blocks, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_rotate_in_turns, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_ends_at_any_point, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_warm, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

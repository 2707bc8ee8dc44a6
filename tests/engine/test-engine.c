/* SPDX-License-Identifier: MIT */
/* The engine with real tiny models: what an answer depends on, and all the ways it can end. */
#include "tests/engine/harness.h"
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>

static const char story[] = "Once upon a time there was a little house by the sea, and in it lived you and I.";

static int setup(void **state)
{
    struct harness *h = malloc(sizeof(*h));
    *state = h;
    harness_init(h, NULL);
    return 0;
}

static int teardown(void **state)
{
    harness_fini(*state);
    free(*state);
    return 0;
}

/* --- what an answer depends on --- */

static void test_raw_answer(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = harness_raw(story);
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
    struct proto_request r = harness_raw(story);
    r.gen.sampling.temperature = 0.8f;
    r.gen.sampling.seed = 12;
    r.gen.max_tokens = 40;
    struct answer *a = harness_run(h, &r);
    assert_done(a, a->n == 40 ? PROTO_STOP_LENGTH : PROTO_STOP_EOS);
    for (unsigned i = 0; i < company; i++) harness_wait(h, ids[i]);
    if (!keep->ids) {
        *keep = *a;
        a->ids = NULL;
        a->logprobs = NULL;
        a->text = (struct buf)BUF_INIT;
        memset(&a->last, 0, sizeof(a->last));
    } else {
        assert_same(keep, a);
    }
    harness_stop(h);
}

static void answer_fini(struct answer *a)
{
    free(a->ids);
    free(a->logprobs);
    buf_fini(&a->text);
    proto_event_fini(&a->last);
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
    struct proto_request r = harness_raw(story), q = harness_raw(story);
    q.gen.logprobs = false;
    struct answer *a = harness_run(h, &r), *b = harness_run(h, &q);
    assert_int_equal(b->n, 0);
    assert_int_equal(a->text.len, b->text.len);
    assert_memory_equal(a->text.data, b->text.data, a->text.len);
    assert_int_equal(a->texts, 16);
}

/* --- ends --- */

static void test_context_end(void **state)
{
    struct harness *h = *state;
    h->config.ctx = 128;
    harness_start(h);
    struct proto_request r = harness_raw(story);
    r.gen.ignore_eos = true;
    r.gen.max_tokens = -1;
    struct answer *a = harness_run(h, &r);
    assert_done(a, PROTO_STOP_CONTEXT);
    assert_int_equal(a->last.usage_prompt + a->last.usage_completion, 128);
}

static void test_prompt_too_long(void **state)
{
    struct harness *h = *state;
    h->config.ctx = 32;
    harness_start(h);
    char text[201] = "";
    memset(text, '.', 200);
    struct proto_request r = harness_raw(text), q;
    struct answer *a = harness_run(h, &r);
    assert_error(a, E2BIG, "the context holds 32");
    assert_non_null(strstr(a->last.message.data, "the prompt is 200 tokens"));
    text[32] = 0;
    r = harness_raw(text);
    assert_error(harness_run(h, &r), E2BIG, "answer included");
    text[31] = 0;
    r = harness_raw(text);
    assert_done(harness_run(h, &r), PROTO_STOP_CONTEXT);
    char *huge = malloc(100001);
    memset(huge, '.', 100000);
    huge[100000] = 0;
    q = harness_raw(huge);
    free(huge);
    assert_error(harness_run(h, &q), E2BIG, "100000 bytes");
}

/* An eog token ends it: it is counted, has a logprob and no text. */
static void test_eog(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    for (int i = 0; i < 2; i++) {
        struct proto_request r = harness_raw("the");
        r.gen.sampling.temperature = 100;
        r.gen.sampling.top_k = 0;
        r.gen.sampling.top_p = 1;
        r.gen.sampling.min_p = 0;
        r.gen.sampling.seed = 3;
        r.gen.max_tokens = 2000;
        r.gen.ignore_eos = i == 1;
        struct answer *a = harness_run(h, &r);
        assert_done(a, i == 0 ? PROTO_STOP_EOS : PROTO_STOP_LENGTH);
        assert_int_equal(a->last.usage_completion, a->n);
        if (i == 1)
            assert_int_equal(a->n, 2000);
        else
            assert_true(a->n < 2000);
    }
}

static void test_stop_string(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = harness_raw(story);
    r.gen.max_tokens = 40;
    struct answer *a = harness_run(h, &r);
    assert_true(a->text.len > 20);
    char stop[4] = "";
    memcpy(stop, a->text.data + 10, 3);
    if ((stop[0] & 0x80) || (stop[1] & 0x80) || (stop[2] & 0x80)) skip();
    size_t at = (size_t)(strstr(a->text.data, stop) - a->text.data);
    r = harness_raw(story);
    r.gen.max_tokens = 40;
    r.gen.n_stop = 1;
    assert_int_equal(proto_text_set(&r.gen.stop[0], stop, 3), 0);
    struct answer *b = harness_run(h, &r);
    assert_done(b, PROTO_STOP_EOS);
    assert_int_equal(b->text.len, at);
    assert_true(at == 0 || memcmp(a->text.data, b->text.data, at) == 0);
    assert_memory_equal(a->ids, b->ids, b->n * sizeof(int32_t));
}

static void test_cancel(void **state)
{
    struct harness *h = *state;
    h->config.batch_tokens = 2;
    h->config.parallel = 1;
    harness_start(h);
    struct proto_request r = harness_raw(story);
    r.gen.max_tokens = 1900;
    r.gen.ignore_eos = true;
    uint64_t decoding = harness_submit(h, &r);
    harness_wait_texts(h, decoding, 3);
    struct proto_request q = harness_raw("waits");
    uint64_t waiting = harness_submit(h, &q);
    struct answer *w = harness_wait_any(h, waiting);
    assert_int_equal(w->queued[0], 1);
    engine_cancel(h->engine, 1, waiting, false);
    assert_done(harness_wait(h, waiting), PROTO_STOP_CANCEL);
    engine_cancel(h->engine, 1, decoding, false);
    struct answer *a = harness_wait(h, decoding);
    assert_done(a, PROTO_STOP_CANCEL);
    assert_true(a->n >= 3 && a->n < 1900);
    assert_int_equal(a->last.usage_completion, a->n);

    /* in prefill: two tokens a step of 1500 */
    char *big = malloc(1501);
    memset(big, '.', 1500);
    big[1500] = 0;
    r = harness_raw(big);
    free(big);
    uint64_t prefill = harness_submit(h, &r);
    harness_wait_any(h, prefill);
    engine_cancel(h->engine, 1, prefill, false);
    a = harness_wait(h, prefill);
    assert_done(a, PROTO_STOP_CANCEL);
    assert_int_equal(a->n, 0);
    assert_true(a->prefill_last < 1500);
    engine_cancel(h->engine, 1, 999, false); /* no such request */
    r = harness_raw("still here");
    assert_done(harness_run(h, &r), PROTO_STOP_LENGTH);
    assert_int_equal(engine_load(h->engine), 0);
}

/* A connection that is gone ends all its requests without a word; its slot and blocks come free. */
static void test_gone(void **state)
{
    struct harness *h = *state;
    h->config.parallel = 1;
    harness_start(h);
    struct proto_request r = harness_raw(story), q = harness_raw("the"), third = harness_raw("a");
    r.gen.max_tokens = 1900;
    r.gen.ignore_eos = true;
    uint64_t a = harness_submit_as(h, 7, 1000, &r), b = harness_submit_as(h, 7, 1000, &q);
    harness_wait_texts(h, a, 1);
    engine_cancel(h->engine, 7, 0, true);
    uint64_t c = harness_submit_as(h, 8, 1000, &third);
    assert_done(harness_wait(h, c), PROTO_STOP_LENGTH);
    assert_false(h->answers[a].ended);
    assert_false(h->answers[b].ended);
    assert_int_equal(engine_load(h->engine), 0);
}

static void test_pause(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = harness_raw(story);
    r.gen.max_tokens = 200;
    r.gen.ignore_eos = true;
    struct answer *alone = harness_run(h, &r);

    r = harness_raw(story);
    r.gen.max_tokens = 200;
    r.gen.ignore_eos = true;
    uint64_t slow = harness_submit_as(h, 5, 1000, &r);
    engine_pause(h->engine, 5, true);
    /* Others go on; what the slow one had in the queue came before. */
    r = harness_raw("the");
    harness_wait(h, harness_submit_as(h, 6, 1000, &r));
    unsigned seen = h->answers[slow].events;
    for (int i = 0; i < 3; i++) {
        r = harness_raw("the");
        harness_wait(h, harness_submit_as(h, 6, 1000, &r));
    }
    assert_int_equal(h->answers[slow].events, seen);
    assert_false(h->answers[slow].ended);
    engine_pause(h->engine, 5, false);
    struct answer *b = harness_wait(h, slow);
    assert_done(b, PROTO_STOP_LENGTH);
    assert_same(alone, b);
}

static void test_deadlines(void **state)
{
    struct harness *h = *state;
    h->config.parallel = 1;
    harness_start(h);
    /* in the answer: a paused one cannot end in time */
    struct proto_request r = harness_raw(story), q = harness_raw("the");
    r.gen.timeout_ms = 300;
    r.gen.max_tokens = 1900;
    r.gen.ignore_eos = true;
    uint64_t a = harness_submit_as(h, 5, 1000, &r);
    harness_wait_any(h, a);
    engine_pause(h->engine, 5, true);
    /* in the queue, behind it */
    q.gen.timeout_ms = 20;
    uint64_t b = harness_submit_as(h, 6, 1000, &q);
    assert_error(harness_wait(h, b), ETIMEDOUT, "the deadline of 20 ms passed in the queue");
    assert_error(harness_wait(h, a), ETIMEDOUT, "the deadline of 300 ms passed");
    r = harness_raw("the");
    assert_done(harness_run(h, &r), PROTO_STOP_LENGTH);
}

static void test_queue_timeout(void **state)
{
    struct harness *h = *state;
    h->config.parallel = 1;
    h->config.queue_timeout_usec = 20000;
    harness_start(h);
    struct proto_request r = harness_raw(story), q = harness_raw("the");
    r.gen.max_tokens = 1900;
    r.gen.ignore_eos = true;
    uint64_t a = harness_submit_as(h, 5, 1000, &r);
    harness_wait_texts(h, a, 1);
    engine_pause(h->engine, 5, true);
    assert_error(harness_run(h, &q), ETIMEDOUT, "no slot came free within 20 ms");
    engine_cancel(h->engine, 5, a, false);
    assert_done(harness_wait(h, a), PROTO_STOP_CANCEL);
}

static void test_queue_positions_and_limit(void **state)
{
    struct harness *h = *state;
    h->config.parallel = 1;
    h->config.queue = 3;
    harness_start(h);
    struct proto_request r = harness_raw(story);
    r.gen.max_tokens = 1900;
    r.gen.ignore_eos = true;
    uint64_t first = harness_submit_as(h, 5, 1000, &r), id[3];
    harness_wait_texts(h, first, 1);
    engine_pause(h->engine, 5, true);
    for (int i = 0; i < 3; i++) {
        r = harness_raw("the");
        id[i] = harness_submit(h, &r);
        harness_wait_any(h, id[i]);
    }
    r = harness_raw("one too many");
    r.id = 50;
    assert_int_equal(engine_submit(h->engine, 1, 1000, &r), -EBUSY);
    assert_non_null(r.gen.prompt.data); /* still the caller's */
    proto_request_fini(&r);
    r = harness_simple(PROTO_STATUS); /* can always be asked */
    struct answer *s = harness_run(h, &r);
    assert_int_equal(s->last.type, PROTO_EV_STATUS);
    assert_non_null(strstr(s->last.status.data, "\"queued\":3"));
    engine_cancel(h->engine, 5, first, false);
    harness_wait(h, first);
    for (int i = 0; i < 3; i++) {
        struct answer *a = harness_wait(h, id[i]);
        assert_done(a, PROTO_STOP_LENGTH);
        assert_int_equal(a->queued[0], i + 1);
        assert_int_equal(a->queued_n, i + 1); /* told again whenever it moved up */
        for (unsigned k = 1; k < a->queued_n; k++) assert_int_equal(a->queued[k], a->queued[k - 1] - 1);
    }
}

/* Blocks for one sequence at a time only: all are served, one after the other, and none is refused. */
static void test_blocks_run_short(void **state)
{
    struct harness *h = *state;
    h->config.kv_bytes = 2 * 32 * 2 * 2 * 16 * 2 * 9; /* 9 blocks: 2 layers, 2 KV heads, dim 16, f16 */
    harness_start(h);
    uint64_t id[6];
    struct answer *a[6];
    for (int i = 0; i < 6; i++) {
        struct proto_request r = harness_raw(story);
        r.gen.max_tokens = 100;
        r.gen.ignore_eos = true;
        id[i] = harness_submit(h, &r);
    }
    for (int i = 0; i < 6; i++) {
        a[i] = harness_wait(h, id[i]);
        assert_done(a[i], PROTO_STOP_LENGTH);
        if (i) assert_same(a[0], a[i]);
    }
    struct proto_request r = harness_raw(story);
    r.gen.max_tokens = -1;
    r.gen.ignore_eos = true;
    struct answer *b = harness_run(h, &r); /* what fits is the context */
    assert_done(b, PROTO_STOP_CONTEXT);
    assert_int_equal(b->last.usage_prompt + b->last.usage_completion, 9 * 32);
}

static void test_invalid_requests(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = harness_raw("");
    assert_error(harness_run(h, &r), EINVAL, "the prompt is empty");
    r = harness_raw("bad \xff byte");
    assert_error(harness_run(h, &r), EILSEQ, "the prompt");
    r = harness_raw("x");
    r.gen.max_tokens = 0;
    assert_error(harness_run(h, &r), EINVAL, "max_tokens");
    r = harness_raw("x");
    r.gen.sampling.top_p = 2;
    assert_error(harness_run(h, &r), EINVAL, "top_p is 2");
    r = harness_raw("x");
    r.gen.n_stop = 1;
    assert_int_equal(proto_text_set(&r.gen.stop[0], "", 0), 0);
    assert_error(harness_run(h, &r), EINVAL, "stop string");
    r = harness_raw("x");
    assert_int_equal(proto_text_set(&r.gen.session, "a/b", 3), 0);
    assert_error(harness_run(h, &r), EINVAL, "'/'");
    r = harness_raw("x");
    r.gen.continue_last = true;
    assert_error(harness_run(h, &r), ENOENT, "no session");
    r = harness_simple(PROTO_GENERATE);
    assert_error(harness_run(h, &r), EINVAL, "the prompt is empty");
    r = harness_simple(PROTO_STOP);
    assert_int_equal(engine_submit(h->engine, 1, 1000, &r), -EINVAL);
}

static void test_tokenize(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    for (int special = 0; special < 2; special++) {
        struct proto_request r = harness_simple(PROTO_TOKENIZE);
        assert_int_equal(proto_text_set(&r.text, "<|im_end|>", 10), 0);
        r.special = special;
        struct answer *a = harness_run(h, &r);
        assert_int_equal(a->last.type, PROTO_EV_TOKENS);
        if (special)
            assert_int_equal(a->last.n_ids, 1);
        else
            assert_true(a->last.n_ids > 1);
    }
}

/* --- life --- */

static void test_load_failure(void **state)
{
    struct harness *h = *state;
    h->config.model_path = (char *)"/nonexistent/model.gguf";
    assert_int_equal(engine_new(&h->engine, &h->config), 0);
    struct proto_request r = harness_raw("x"); /* before or after it failed: the same answer */
    assert_error(harness_run(h, &r), EIO, "/nonexistent/model.gguf");
    const char *why = NULL;
    assert_int_equal(engine_state(h->engine, &why), ENGINE_FAILED);
    assert_non_null(strstr(why, "/nonexistent/model.gguf"));
    r = harness_raw("x");
    assert_error(harness_run(h, &r), EIO, "/nonexistent/model.gguf");
    r = harness_simple(PROTO_STATUS);
    struct answer *a = harness_run(h, &r);
    assert_non_null(strstr(a->last.status.data, "\"state\":\"failed\""));
}

static void test_submitted_while_loading(void **state)
{
    struct harness *h = *state;
    assert_int_equal(engine_new(&h->engine, &h->config), 0);
    struct proto_request r = harness_raw("x");
    assert_done(harness_run(h, &r), PROTO_STOP_LENGTH);
    r = harness_simple(PROTO_STATUS);
    struct answer *a = harness_run(h, &r);
    assert_non_null(strstr(a->last.status.data, "\"state\":\"ready\""));
    assert_non_null(strstr(a->last.status.data, "\"arch\":\"llama\""));
}

static void test_drain(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = harness_raw(story), q = harness_raw("x");
    uint64_t id = harness_submit(h, &r);
    engine_drain(h->engine);
    q.id = 99;
    assert_int_equal(engine_submit(h->engine, 1, 1000, &q), -ESHUTDOWN);
    proto_request_fini(&q);
    assert_done(harness_wait(h, id), PROTO_STOP_LENGTH);
    assert_int_equal(engine_load(h->engine), 0);
}

/* Nobody reads: the queue of events fills, the engine waits, and can still be ended; and goes on when read. */
static void test_full_queue_of_events(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    for (int round = 0; round < 2; round++) {
        struct proto_request r = harness_raw(story);
        r.gen.max_tokens = 1800;
        r.gen.ignore_eos = true;
        uint64_t id = harness_submit(h, &r);
        uint64_t last;
        do { /* until it stands still: the queue is shorter than the answer */
            last = engine_progress(h->engine);
            poll(NULL, 0, 100);
        } while (engine_progress(h->engine) != last);
        assert_int_equal(engine_load(h->engine), 1);
        if (round == 0) assert_done(harness_wait(h, id), PROTO_STOP_LENGTH);
    }
}

static void test_status_is_ones_own(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = harness_raw("x");
    assert_int_equal(proto_text_set(&r.gen.session, "s", 1), 0);
    harness_wait(h, harness_submit_as(h, 1, 1234, &r));
    const struct {
        uid_t uid;
        const char *requests, *sessions;
    } want[] = {{1234, "\"requests\":1", "\"sessions\":1"},
                {1235, "\"requests\":0", "\"sessions\":0"},
                {0, "\"requests\":1", "\"sessions\":1"}};
    for (int i = 0; i < 3; i++) {
        r = harness_simple(PROTO_STATUS);
        struct answer *a = harness_wait(h, harness_submit_as(h, 1, want[i].uid, &r));
        assert_non_null(strstr(a->last.status.data, want[i].requests));
        assert_non_null(strstr(a->last.status.data, want[i].sessions));
    }
}

static void test_free_in_the_middle(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    for (int i = 0; i < 20; i++) {
        struct proto_request r = harness_raw(story);
        r.gen.max_tokens = 500;
        harness_submit(h, &r);
    }
    harness_wait_texts(h, 1, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_raw_answer),
        TEST(test_only_the_request_matters),
        TEST(test_seed),
        TEST(test_without_logprobs_same_text),
        TEST(test_context_end),
        TEST(test_prompt_too_long),
        TEST(test_eog),
        TEST(test_stop_string),
        TEST(test_cancel),
        TEST(test_gone),
        TEST(test_pause),
        TEST(test_deadlines),
        TEST(test_queue_timeout),
        TEST(test_queue_positions_and_limit),
        TEST(test_blocks_run_short),
        TEST(test_invalid_requests),
        TEST(test_tokenize),
        TEST(test_load_failure),
        TEST(test_submitted_while_loading),
        TEST(test_drain),
        TEST(test_full_queue_of_events),
        TEST(test_status_is_ones_own),
        TEST(test_free_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Covers request.c, start.c and tokenize.c: what ends a request from outside, and what is refused. */
#include "tests/engine/harness.h"
#include <errno.h>
#include <math.h>

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

static void test_cancel(void **state)
{
    struct harness *h = *state;
    h->config.batch_tokens = 2;
    h->config.parallel = 1;
    harness_start(h);
    struct proto_request r = harness_raw(harness_story);
    r.gen.max_tokens = 1900;
    r.gen.ignore_eos = true;
    uint64_t decoding = harness_submit(h, &r);
    harness_wait_texts(h, decoding, 3);
    struct proto_request q = harness_raw("waits");
    uint64_t waiting = harness_submit(h, &q);
    struct answer *w = harness_wait_any(h, waiting);
    assert_int_equal(w->queued[0], 1);
    engine_cancel(h->engine, 1, waiting);
    assert_done(harness_wait(h, waiting), PROTO_STOP_CANCEL);
    engine_cancel(h->engine, 1, decoding);
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
    harness_hold(h);
    uint64_t prefill = harness_submit(h, &r);
    while (h->answers[prefill].prefill_n == 0) harness_turn(h);
    engine_cancel(h->engine, 1, prefill);
    harness_go(h);
    a = harness_wait(h, prefill);
    assert_done(a, PROTO_STOP_CANCEL);
    assert_int_equal(a->n, 0);
    assert_true(a->prefill_last < 1500);
    engine_cancel(h->engine, 1, 999); /* no such request */
    r = harness_raw("still here");
    assert_done(harness_run(h, &r), PROTO_STOP_LENGTH);
    assert_int_equal(engine_load(h->engine), 0);
}

/* A connection that closes ends all its requests, whose slots and blocks become free. */
static void test_gone(void **state)
{
    struct harness *h = *state;
    h->config.parallel = 1;
    harness_start(h);
    struct proto_request q = harness_raw("the"), third = harness_raw("a");
    uint64_t a = harness_occupy(h, 7), b = harness_submit_as(h, 7, 1000, &q);
    engine_abandon(h->engine, 7, a);
    engine_abandon(h->engine, 7, b);
    uint64_t c = harness_submit_as(h, 8, 1000, &third);
    assert_done(harness_wait(h, c), PROTO_STOP_LENGTH);
    assert_done(harness_wait(h, a), PROTO_STOP_CANCEL);
    assert_done(harness_wait(h, b), PROTO_STOP_CANCEL);
    assert_int_equal(engine_load(h->engine), 0);
}

/* A paused connection gets no place and no step, so its deadlines pass however fast the machine is. */
static void test_deadlines(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = harness_raw(harness_story), q = harness_raw("the");
    engine_pause(h->engine, 6, true);
    q.gen.timeout_ms = 20;
    uint64_t b = harness_submit_as(h, 6, 1000, &q);
    assert_error(harness_wait(h, b), ETIMEDOUT, "the time limit of 20 ms passed in the queue");
    /* in the answer, unless the machine is so slow that it comes earlier */
    r.gen.timeout_ms = 300;
    r.gen.max_tokens = 1u << 30;
    r.gen.context = PROTO_CONTEXT_ROTATE;
    r.gen.ignore_eos = true;
    uint64_t a = harness_submit_as(h, 5, 1000, &r);
    harness_wait_any(h, a);
    engine_pause(h->engine, 5, true);
    assert_error(harness_wait(h, a), ETIMEDOUT, "the time limit of 300 ms passed");
    r = harness_raw("the");
    assert_done(harness_run(h, &r), PROTO_STOP_LENGTH);
}

static void test_queue_timeout(void **state)
{
    struct harness *h = *state;
    h->config.queue_timeout_usec = 20000;
    harness_start(h);
    struct proto_request q = harness_raw("the");
    engine_pause(h->engine, 6, true);
    uint64_t b = harness_submit_as(h, 6, 1000, &q);
    assert_error(harness_wait(h, b), ETIMEDOUT, "the request waited longer than the daemon's limit of 20 ms");
    assert_int_equal(engine_load(h->engine), 0);
}

/* Takes the text. */
static struct proto_request biased(const struct proto_bias *b)
{
    struct proto_request r = harness_raw("x");
    r.gen.biases = malloc(sizeof(*b));
    assert_non_null(r.gen.biases);
    r.gen.biases[0] = *b;
    r.gen.n_biases = 1;
    return r;
}

/* The greedy answer's tokens one after the other made impossible: none comes back; and one made certain, by its text.
 */
static void test_logit_bias(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    int32_t not [8];
    for (size_t n = 0; n < 8; n++) {
        struct proto_request r = harness_raw("x");
        r.gen.max_tokens = 1;
        r.gen.biases = calloc(8, sizeof(*r.gen.biases));
        assert_non_null(r.gen.biases);
        r.gen.n_biases = n;
        for (size_t i = 0; i < n; i++) r.gen.biases[i] = (struct proto_bias){.id = not [i], .bias = -100};
        struct answer *a = harness_run(h, &r);
        assert_int_equal(a->n, 1);
        not [n] = a->ids[0];
        for (size_t i = 0; i < n; i++) assert_int_not_equal(not [i], not [n]);
    }
    struct proto_request r = biased(&(struct proto_bias){.text = {strdup("Z"), 1}, .bias = 100});
    r.gen.max_tokens = 3;
    struct answer *a = harness_run(h, &r);
    assert_string_equal(a->text.data, "ZZZ");
    r = biased(&(struct proto_bias){.text = {strdup("<|im_end|>"), 10}, .bias = 100});
    assert_done(harness_run(h, &r), PROTO_STOP_EOS);
}

/* Mirostat's bound is the sequence's own: alone, in a batch with others, and in a session's next turn. */
static void test_mirostat_is_the_sequences_own(void **state)
{
    struct harness *h = *state;
    uint64_t id[3];
    struct answer *a[4];
    harness_start(h);
    for (int i = 0; i < 4; i++) {
        struct proto_request r = harness_raw(i % 2 ? harness_story : "x");
        r.gen.max_tokens = 200;
        r.gen.ignore_eos = true;
        r.gen.sampling.temperature = 1;
        r.gen.sampling.seed = 3;
        r.gen.sampling.mirostat = 3;
        if (i < 3)
            id[i] = harness_submit(h, &r);
        else
            for (int k = 0; k < 3; k++) a[k] = harness_wait(h, id[k]);
        if (i == 3) a[3] = harness_run(h, &r);
    }
    for (int i = 0; i < 4; i++) assert_done(a[i], PROTO_STOP_LENGTH);
    assert_same(a[0], a[2]);
    assert_same(a[1], a[3]);
    /* it does something: the same without it is another answer */
    struct proto_request r = harness_raw("x");
    r.gen.max_tokens = 200;
    r.gen.ignore_eos = true;
    r.gen.sampling.temperature = 1;
    r.gen.sampling.seed = 3;
    struct answer *without = harness_run(h, &r);
    assert_memory_not_equal(without->ids, a[0]->ids, 200 * sizeof(int32_t));
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
    r.gen.sampling.mirostat_eta = -INFINITY;
    assert_error(harness_run(h, &r), EINVAL, "mirostat_eta is -inf");
    r = biased(&(struct proto_bias){.id = 1 << 20, .bias = 1});
    assert_error(harness_run(h, &r), EINVAL, "logit_bias: 1048576 is not a token of the model (0 to ");
    r = biased(&(struct proto_bias){.id = -1, .bias = 1});
    assert_error(harness_run(h, &r), EINVAL, "logit_bias: -1 is not a token");
    r = biased(&(struct proto_bias){.id = 1, .bias = NAN});
    assert_error(harness_run(h, &r), EINVAL, "logit_bias: the bias is nan");
    r = biased(&(struct proto_bias){.text = {strdup("qqq"), 3}, .bias = 1});
    assert_error(harness_run(h, &r), EINVAL, "logit_bias: 'qqq' is 3 tokens, not one");
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
            assert_int_equal(a->last.tokens.n, 1);
        else
            assert_true(a->last.tokens.n > 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_prompt_too_long, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_cancel, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_gone, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_deadlines, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_queue_timeout, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_invalid_requests, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_logit_bias, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_mirostat_is_the_sequences_own, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_tokenize, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Covers the context policies of sequence.c and prefix-reuse.c: a full context that shifts or rotates. */
#include "tests/engine/harness.h"

/* A full context: what comes out is a function of the tokens, not of steps, company or cache. */
static void full(struct harness *h, enum proto_context policy)
{
    struct answer *a[3], *cold[3];
    h->config.ctx = 256;
    harness_start(h);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < 3; i++) {
            char doc[1024];
            harness_text(doc, sizeof(doc), 30 + i, 60);
            struct proto_request r = harness_raw(doc);
            assert_int_equal(proto_text_set(&r.gen.session, "long", 4), 0);
            r.gen.context = i == 0 ? policy : PROTO_CONTEXT_UNSET; /* the session remembers */
            r.gen.max_tokens = 150;
            r.gen.ignore_eos = true;
            struct answer *x = harness_wait(h, harness_submit_as(h, 1, 1000 + pass, &r));
            assert_done(x, PROTO_STOP_LENGTH);
            assert_int_equal(x->n, 150);
            (pass ? cold : a)[i] = x;
        }
    for (int i = 0; i < 3; i++) {
        assert_same(a[i], cold[i]);
        assert_int_equal(a[i]->last.cut.shifted, cold[i]->last.cut.shifted);
    }
    assert_int_equal(a[2]->last.cut.shifted > 0, policy == PROTO_CONTEXT_SHIFT);
    struct proto_request r = harness_raw(harness_story); /* refuse is the default still */
    r.gen.max_tokens = -1;
    r.gen.ignore_eos = true;
    assert_done(harness_run(h, &r), PROTO_STOP_CONTEXT);
}

static void full_both(struct harness *h, enum proto_context policy)
{
    struct answer keep[3] = {0};
    for (int pass = 0; pass < 2; pass++) {
        h->config.batch_tokens = pass ? 9 : 512;
        h->config.threads = pass ? 2 : 1;
        full(h, policy);
        for (int i = 0; i < 3; i++) {
            struct answer *a = &h->answers[i + 1];
            if (pass) {
                assert_same(&keep[i], a);
                answer_fini(&keep[i]);
            } else {
                keep[i] = answer_take(a);
            }
        }
        harness_stop(h);
    }
}

static void test_shift(void **state)
{
    full_both(*state, PROTO_CONTEXT_SHIFT);
}

static void test_rotate(void **state)
{
    full_both(*state, PROTO_CONTEXT_ROTATE);
}

/* A context that shifts has other tokens from then on: its last block is not found under them. Token 0 is the byte
 * 0, and no token of the text merges with its neighbours. */
static void test_shifted_block(void **state)
{
    struct harness *h = *state;
    char prompt[128] = {0};
    h->config.ctx = 128;
    harness_start(h);
    memset(prompt, '~', 110);
    struct proto_request r = harness_seeded(prompt);
    r.gen.context = PROTO_CONTEXT_SHIFT;
    struct answer *a = harness_run(h, &r);
    assert_done(a, PROTO_STOP_LENGTH);
    assert_int_equal(a->last.usage_prompt, 110);
    assert_true(a->last.cut.shifted > 0);
    memset(prompt + 96, 0, 14);
    for (uid_t i = 0; i < 2; i++) {
        r = harness_seeded("");
        r.gen.max_tokens = 20;
        assert_int_equal(proto_text_set(&r.gen.prompt, prompt, 104), 0);
        struct answer *b = harness_wait(h, harness_submit_as(h, 1, 1000 + i, &r));
        assert_int_equal(b->last.usage_prompt, 104);
        assert_int_equal(b->last.usage_cached, i ? 0 : 96);
        assert_same(&h->answers[2], b);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_shift),
        TEST(test_rotate),
        TEST(test_shifted_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

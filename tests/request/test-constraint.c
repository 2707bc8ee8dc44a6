/* SPDX-License-Identifier: MIT */
/* Constrained requests, through an engine. Also tests constraint-compile.c. */
#include "daemon/request/constraint.h"
#include "daemon/request/request.h"
#include "libcommon/error.h"
#include "tests/engine/harness.h"
#include <stdio.h>

static void set(struct proto_text *t, const char *s)
{
    assert_int_equal(proto_text_set(t, s, strlen(s)), 0);
}

static struct proto_request constrained(enum proto_constraint_type type, const char *text, int64_t seed)
{
    struct proto_request r = harness_raw(harness_story);
    r.constraint.type = type;
    set(&r.constraint.text, text);
    r.gen.sampling.temperature = 1.5f;
    r.gen.sampling.seed = seed;
    r.gen.max_tokens = 200;
    return r;
}

static struct proto_request choice(int64_t seed)
{
    static const char *const words[] = {"yes", "no", "not at all"};
    struct proto_request r = harness_raw(harness_story);
    r.constraint.type = PROTO_CONSTRAINT_CHOICE;
    r.constraint.choices = calloc(3, sizeof(*r.constraint.choices));
    assert_non_null(r.constraint.choices);
    r.constraint.n_choices = 3;
    for (size_t i = 0; i < 3; i++) set(&r.constraint.choices[i], words[i]);
    r.gen.sampling.temperature = 1.5f;
    r.gen.sampling.seed = seed;
    return r;
}

static void test_each_type(void **state)
{
    struct harness *h = *state;
    unsigned said[3] = {0};
    harness_start(h);
    for (int seed = 0; seed < 12; seed++) {
        struct proto_request r = choice(seed);
        struct answer *a = harness_run(h, &r);
        assert_done(a, PROTO_STOP_EOS);
        said[0] += strcmp(a->text.data, "yes") == 0;
        said[1] += strcmp(a->text.data, "no") == 0;
        said[2] += strcmp(a->text.data, "not at all") == 0;
        harness_forget(h);
        r = constrained(PROTO_CONSTRAINT_REGEX, "[0-9]{4}-[0-9]{2}", seed);
        a = harness_run(h, &r);
        assert_done(a, PROTO_STOP_EOS);
        assert_int_equal(a->text.len, 7);
        assert_int_equal(strspn(a->text.data, "0123456789"), 4);
        harness_forget(h);
        r = constrained(PROTO_CONSTRAINT_GRAMMAR, "root ::= \"(\" [a-c]{2,4} \")\"", seed);
        a = harness_run(h, &r);
        assert_done(a, PROTO_STOP_EOS);
        assert_int_equal(a->text.data[0], '(');
        assert_int_equal(1 + strspn(a->text.data + 1, "abc") + 1, a->text.len);
        harness_forget(h);
    }
    assert_int_equal(said[0] + said[1] + said[2], 12);
    assert_true(said[0] < 12 && said[1] < 12);
}

static void test_refused_before_any_token(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    static const struct {
        enum proto_constraint_type type;
        const char *text, *why;
    } bad[] = {
        {PROTO_CONSTRAINT_REGEX, "(a", "regex: "},
        {PROTO_CONSTRAINT_REGEX, "a\\1", "regex: "},
        {PROTO_CONSTRAINT_GRAMMAR, "root ::= (", "grammar: "},
        {PROTO_CONSTRAINT_GRAMMAR, "root ::= other", "grammar: "},
        {PROTO_CONSTRAINT_GRAMMAR, "root ::= root \"a\"", "grammar: "},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct proto_request r = constrained(bad[i].type, bad[i].text, 1);
        struct answer *a = harness_run(h, &r);
        assert_error(a, EDOM, bad[i].why);
        assert_int_equal(a->texts, 0);
    }
    struct proto_request r = constrained(PROTO_CONSTRAINT_REGEX, "[a-z]{30}-", 1);
    r.constraint.on_limit = PROTO_LIMIT_CLOSE;
    r.gen.max_tokens = 3;
    assert_error(harness_run(h, &r), EDOM, "regex: the shortest answer does not fit into 3 tokens");
    r = constrained(PROTO_CONSTRAINT_REGEX, "(", 1);
    r.type = PROTO_WARM;
    assert_error(harness_run(h, &r), EDOM, "regex: ");
    r = constrained(PROTO_CONSTRAINT_REGEX, "a", 1);
    r.type = PROTO_WARM;
    assert_done(harness_run(h, &r), PROTO_STOP_LENGTH);
}

static void test_on_limit(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    for (int seed = 0; seed < 10; seed++)
        for (int close = 0; close < 2; close++) {
            struct proto_request r = constrained(PROTO_CONSTRAINT_REGEX, "<[a-z ]{20,}>", seed);
            r.gen.max_tokens = 24;
            r.constraint.on_limit = close ? PROTO_LIMIT_CLOSE : PROTO_LIMIT_UNSET;
            struct answer *a = harness_run(h, &r);
            assert_int_equal(a->last.type, PROTO_EV_DONE);
            assert_true(a->n <= 24);
            bool whole = a->text.data[a->text.len - 1] == '>';
            if (close) assert_true(whole);
            if (!whole) assert_int_equal(a->last.reason, PROTO_STOP_LENGTH);
            harness_forget(h);
        }
}

/* The template asks for text that is forced for the most part. */
static const char form[] = "root ::= \"{name: \" [a-z]{1,9} \", the words between are fixed, age: \" [0-9]{1,2} \"}\"";

/* The ids and logprobs are the same whether forced tokens are computed in one step or each in its own, which a batch of
 * one token is; and with other answers to the same prompt. */
static void test_the_same_bits(void **state)
{
    struct harness *h = *state;
    struct answer *alone[3];
    uint64_t ids[3];
    harness_start(h);
    for (int i = 0; i < 3; i++) {
        struct proto_request r = constrained(PROTO_CONSTRAINT_GRAMMAR, form, i);
        alone[i] = harness_run(h, &r);
        assert_done(alone[i], PROTO_STOP_EOS);
    }
    long long steps = harness_status(h, 0, "steps");
    assert_true(steps < (long long)(alone[0]->n + alone[1]->n + alone[2]->n));
    for (int i = 0; i < 3; i++) {
        struct proto_request r = constrained(PROTO_CONSTRAINT_GRAMMAR, form, i);
        ids[i] = harness_submit(h, &r);
    }
    for (int i = 0; i < 3; i++) assert_same(harness_wait(h, ids[i]), alone[i]);
    struct proto_request r = constrained(PROTO_CONSTRAINT_GRAMMAR, form, 1);
    r.gen.n = 4;
    ids[0] = harness_submit(h, &r);
    for (uint64_t i = 0; i < 4; i++) {
        struct answer *a = harness_wait(h, ids[0] + i);
        assert_int_equal(a->last.type, PROTO_EV_DONE);
        assert_int_equal(strncmp(a->text.data, "{name: ", 7), 0);
    }
    assert_same(harness_wait(h, ids[0]), alone[1]);
}

static void test_a_step_for_each_token(void **state)
{
    struct harness *h = *state;
    struct answer kept;
    harness_start(h);
    struct proto_request r = constrained(PROTO_CONSTRAINT_GRAMMAR, form, 5);
    struct answer *a = harness_run(h, &r);
    kept = *a;
    a->ids = NULL;
    a->logprobs = NULL;
    a->text = (struct buf)BUF_INIT;
    harness_stop(h);
    h->config.batch_tokens = 1;
    harness_start(h);
    r = constrained(PROTO_CONSTRAINT_GRAMMAR, form, 5);
    assert_same(harness_run(h, &r), &kept);
    free(kept.ids);
    free(kept.logprobs);
    buf_fini(&kept.text);
}

/* More answers than slots, of several users: they take turns, and are those that each has alone. */
static void test_preempted(void **state)
{
    struct harness *h = *state;
    struct answer *alone[6];
    uint64_t ids[6];
    h->forgetful = true;
    h->config.parallel = 2;
    h->config.kv_bytes = 2 * 32 * 2 * 2 * 16 * 2 * 30;
    harness_start(h);
    for (int i = 0; i < 6; i++) {
        struct proto_request r = constrained(PROTO_CONSTRAINT_REGEX, "([a-z]{5}, and then ){12,};", i);
        r.gen.max_tokens = 300;
        r.constraint.on_limit = PROTO_LIMIT_CLOSE;
        alone[i] = harness_run(h, &r);
        assert_int_equal(alone[i]->text.data[alone[i]->text.len - 1], ';');
    }
    harness_hold(h);
    for (int i = 0; i < 6; i++) {
        struct proto_request r = constrained(PROTO_CONSTRAINT_REGEX, "([a-z]{5}, and then ){12,};", i);
        r.gen.max_tokens = 300;
        r.constraint.on_limit = PROTO_LIMIT_CLOSE;
        ids[i] = harness_submit_as(h, 1 + (uint64_t)i, 1000 + (uid_t)i % 3, &r);
    }
    harness_go(h);
    for (int i = 0; i < 6; i++) assert_same(harness_wait(h, ids[i]), alone[i]);
    assert_true(harness_status(h, 0, "preemptions") > 0);
    assert_int_equal(harness_status(h, 1001, "constraints"), 1);
}

static void test_a_session_goes_on(void **state)
{
    struct harness *h = *state;
    harness_dirs(h);
    harness_start(h);
    for (int i = 0; i < 3; i++) {
        struct proto_request r = harness_user("s", "say it");
        r.constraint.type = PROTO_CONSTRAINT_REGEX;
        set(&r.constraint.text, i == 1 ? "[xyz]{3}" : "(abc){2}");
        struct answer *a = harness_run(h, &r);
        assert_done(a, PROTO_STOP_EOS);
        if (i != 1) assert_string_equal(a->text.data, "abcabc");
        if (i == 1) assert_int_equal(strspn(a->text.data, "xyz"), 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_type, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_refused_before_any_token, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_on_limit, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_the_same_bits, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_a_step_for_each_token, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_preempted, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_a_session_goes_on, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* The daemon's drafter: who may use it, what it remembers, and of whom. That it changes no answer is test-draft.c's. */
#include "daemon/engine/state.h"
#include "daemon/request/request.h"
#include "tests/engine/harness.h"
#include <errno.h>

#define TOKENS 120

/* A greedy answer of the tiny model runs into a loop. */
static struct proto_request looping(enum proto_speculate mode)
{
    struct proto_request r = harness_raw(harness_story);
    r.gen.max_tokens = TOKENS;
    r.gen.ignore_eos = true;
    r.speculate = mode;
    return r;
}

static const struct answer *ask(struct harness *h, uid_t uid, struct proto_request *r)
{
    return harness_wait(h, harness_submit_as(h, 1, uid, r));
}

static void test_usage_and_status(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = looping(PROTO_SPECULATE_OFF);
    const struct answer *off = ask(h, 1000, &r);
    assert_true(off->last.usage_drafted == 0 && off->last.usage_accepted == 0);
    assert_int_equal(harness_status(h, 0, "drafted"), 0);
    assert_int_equal(harness_status(h, 0, "tokens_pass"), 1);
    for (int i = 0; i < 4; i++) {
        long long before = harness_status(h, 0, "steps"), drafted = harness_status(h, 0, "drafted");
        r = looping(i == 0 ? PROTO_SPECULATE_UNSET : i % 2 ? PROTO_SPECULATE_AUTO : PROTO_SPECULATE_LOOKUP);
        const struct answer *a = ask(h, 1000, &r);
        assert_same(off, a);
        assert_true(a->last.usage_accepted <= a->last.usage_drafted);
        assert_int_equal(harness_status(h, 0, "drafted") - drafted, a->last.usage_drafted);
        assert_in_range(harness_status(h, 0, "steps") - before, TOKENS - a->last.usage_accepted - 1,
                        TOKENS - a->last.usage_accepted + 2);
    }
    assert_true(harness_status(h, 0, "accepted") > 0);
}

static void test_modes(void **state)
{
    struct harness *h = *state;
    h->config.speculation.mode = PROTO_SPECULATE_OFF;
    harness_start(h);
    struct proto_request r = looping(PROTO_SPECULATE_DRAFT);
    assert_error(ask(h, 1000, &r), EOPNOTSUPP, "needs a draft model");
    r = looping(PROTO_SPECULATE_LOOKUP);
    assert_error(ask(h, 1000, &r), EOPNOTSUPP, "the daemon's configuration has 'off'");
    r = looping(PROTO_SPECULATE_AUTO);
    assert_done(ask(h, 1000, &r), PROTO_STOP_LENGTH);
    assert_int_equal(harness_status(h, 0, "drafted"), 0);
    harness_stop(h);
    h->config.speculation.mode = PROTO_SPECULATE_LOOKUP;
    harness_start(h);
    r = looping(PROTO_SPECULATE_DRAFT);
    assert_error(ask(h, 1000, &r), EOPNOTSUPP, "needs a draft model");
    r = looping(PROTO_SPECULATE_LOOKUP);
    assert_done(ask(h, 1000, &r), PROTO_STOP_LENGTH);
}

/* Each uid, and each salt, has its own past, which has its own answers and nothing else; of "off" nothing is kept. */
static void test_pasts(void **state)
{
    static const struct {
        uid_t uid;
        const char *salt;
        enum proto_speculate mode;
        uint32_t answers;
    } asked[] = {{1000, "", PROTO_SPECULATE_AUTO, 2},
                 {1000, "x", PROTO_SPECULATE_AUTO, 1},
                 {1001, "x", PROTO_SPECULATE_AUTO, 3},
                 {1002, "", PROTO_SPECULATE_OFF, 1}};
    struct harness *h = *state;
    harness_start(h);
    for (int i = 0; i < 4; i++)
        for (uint32_t k = 0; k < asked[i].answers; k++) {
            struct proto_request r = looping(asked[i].mode);
            if (*asked[i].salt) assert_int_equal(proto_text_set(&r.gen.salt, asked[i].salt, 1), 0);
            assert_done(ask(h, asked[i].uid, &r), PROTO_STOP_LENGTH);
        }
    harness_hold(h);
    const struct pasts *t = &h->engine->core.drafter.pasts;
    assert_int_equal(t->n, 3);
    const struct past *p = t->list;
    for (int i = 2; i >= 0; i--, p = p->next) {
        assert_int_equal(p->uid, asked[i].uid);
        assert_int_equal(p->holds, 0);
        assert_in_range(lookup_end(p->answers), asked[i].answers * (TOKENS + 1), asked[i].answers * (TOKENS + 1 + 32));
    }
    harness_go(h);
}

/* Of several answers to one prompt, and of a request that is cancelled, nothing stays held. */
static void test_ends(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = looping(PROTO_SPECULATE_AUTO);
    r.gen.n = 5;
    r.gen.sampling.temperature = 1;
    uint64_t several = harness_submit_as(h, 1, 1000, &r);
    r = looping(PROTO_SPECULATE_AUTO);
    r.gen.max_tokens = 1500;
    uint64_t cut = harness_submit_as(h, 2, 1000, &r);
    harness_wait_texts(h, cut, 5);
    engine_cancel(h->engine, 2, cut);
    harness_wait(h, cut);
    for (uint64_t i = 0; i < 5; i++) harness_wait(h, several + i);
    assert_all_blocks_free(h);
    harness_hold(h);
    assert_int_equal(h->engine->core.drafter.pasts.n, 1);
    assert_int_equal(h->engine->core.drafter.pasts.list->holds, 0);
    harness_go(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_usage_and_status, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_modes, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_pasts, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_ends, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* A mask that takes long delays its own answer and no other, and changes neither. */
#include "daemon/request/mask-job.h"
#include "daemon/text/grammar/grammar.h"
#include "tests/engine/harness.h"
#include <unistd.h>

/* While it is set, the masks of jobs wait. */
static atomic_bool shut, waits;
static __thread bool is_engine; /* the engine's thread */

void __real_mask_jobs_begin(struct core *core, uint32_t n);
void __wrap_mask_jobs_begin(struct core *core, uint32_t n);

void __wrap_mask_jobs_begin(struct core *core, uint32_t n)
{
    is_engine = true;
    __real_mask_jobs_begin(core, n);
}

int __real_grammar_state_mask(struct grammar_state *st, const struct token_trie *t, uint64_t *mask);
int __wrap_grammar_state_mask(struct grammar_state *st, const struct token_trie *t, uint64_t *mask);

int __wrap_grammar_state_mask(struct grammar_state *st, const struct token_trie *t, uint64_t *mask)
{
    if (is_engine) usleep(2 * MASK_SLOW_USEC); /* masks that take long are for jobs */
    while (atomic_load(&shut) && !is_engine) {
        atomic_store(&waits, true);
        usleep(100);
    }
    return __real_grammar_state_mask(st, t, mask);
}

static struct proto_request constrained(int64_t seed)
{
    struct proto_request r = harness_seeded(harness_story);
    r.constraint.type = PROTO_CONSTRAINT_REGEX;
    assert_int_equal(proto_text_set(&r.constraint.text, "([a-z]{3}, then ){6,}", 21), 0);
    r.gen.sampling.seed = seed;
    r.gen.max_tokens = 120;
    return r;
}

static struct proto_request endless(uint32_t tokens)
{
    struct proto_request r = harness_seeded(harness_story);
    r.gen.ignore_eos = true;
    r.gen.max_tokens = tokens;
    return r;
}

/* Two constrained answers and a free one. The masks wait until the free answer has advanced by 20 tokens, or has ended.
 */
static void test_others_go_on(void **state)
{
    struct harness *h = *state;
    struct answer *alone[3];
    uint64_t ids[3];
    harness_start(h);
    for (int i = 0; i < 3; i++) {
        struct proto_request r = i < 2 ? constrained(i) : endless(400);
        alone[i] = harness_run(h, &r);
        assert_int_equal(alone[i]->last.type, PROTO_EV_DONE);
    }
    for (int end = 0; end < 2; end++) {
        harness_hold(h);
        for (int i = 0; i < 3; i++) {
            struct proto_request r = i < 2 ? constrained(i) : endless(400);
            ids[i] = harness_submit(h, &r);
        }
        harness_go(h);
        struct answer *free = harness_wait_texts(h, ids[2], 3);
        harness_wait_texts(h, ids[0], 1);
        atomic_store(&waits, false);
        atomic_store(&shut, true);
        while (!atomic_load(&waits) && !h->answers[ids[0]].ended) usleep(100);
        assert_true(atomic_load(&waits));
        if (end)
            harness_wait(h, ids[2]);
        else
            harness_wait_texts(h, ids[2], free->texts + 20);
        assert_false(h->answers[ids[0]].ended);
        atomic_store(&shut, false);
        for (int i = 0; i < 3; i++) assert_same(harness_wait(h, ids[i]), alone[i]);
    }
}

/* One that is cancelled meanwhile ends at once. */
static void test_cancelled_meanwhile(void **state)
{
    struct harness *h = *state;
    uint64_t ids[2];
    harness_start(h);
    struct proto_request r = constrained(1), q = endless(400);
    harness_hold(h);
    ids[0] = harness_submit_as(h, 7, 1000, &r);
    ids[1] = harness_submit(h, &q);
    harness_go(h);
    harness_wait_texts(h, ids[0], 1);
    atomic_store(&waits, false);
    atomic_store(&shut, true);
    while (!atomic_load(&waits)) usleep(100);
    engine_cancel(h->engine, 7, ids[0]);
    assert_done(harness_wait(h, ids[0]), PROTO_STOP_CANCEL);
    assert_done(harness_wait(h, ids[1]), PROTO_STOP_LENGTH);
    atomic_store(&shut, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_others_go_on, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_cancelled_meanwhile, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

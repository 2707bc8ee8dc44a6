/* SPDX-License-Identifier: MIT */
/* The engine on a backend that is not the CPU's, which counts the work that the engine asks for. */
#include "tests/backend/counting.h"
#include "tests/engine/harness.h"

/* Answer @prompt greedily; *work is the work of the backend. */
static struct answer *ask(struct harness *h, const char *prompt, struct counts *work)
{
    const struct counts before = counting;
    struct proto_request r = harness_raw(prompt);
    struct answer *a = harness_wait(h, harness_submit(h, &r));
    assert_int_equal(a->last.type, PROTO_EV_DONE);
    *work = (struct counts){.forwards = counting.forwards - before.forwards,
                            .tokens = counting.tokens - before.tokens,
                            .rows = counting.rows - before.rows,
                            .logsumexps = counting.logsumexps - before.logsumexps};
    return a;
}

static void test_the_engine_calls_the_chosen_backend(void **state)
{
    struct harness *h = *state;
    struct counts first, second;
    const uint64_t made = counting.made;
    harness_start(h);
    assert_int_equal(counting.made, made + 1);
    const struct answer *a = ask(h, harness_story, &first), *b = ask(h, harness_story, &second);
    assert_true(a->n > 1 && a->n == b->n);
    assert_memory_equal(a->ids, b->ids, a->n * sizeof(*a->ids));
    assert_memory_equal(a->logprobs, b->logprobs, a->n * sizeof(*a->logprobs));
    /* one row of logits for each token of the answer, and its logprob */
    assert_int_equal(first.rows, a->n);
    assert_int_equal(first.logsumexps, a->n);
    assert_int_equal(second.logsumexps, b->n);
    /* the second time only the last token of the prompt is computed, and those of the answer */
    assert_int_equal(second.rows, first.rows);
    assert_true(first.tokens > second.tokens);
    assert_int_equal(second.tokens, b->n);
    harness_stop(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_engine_calls_the_chosen_backend, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

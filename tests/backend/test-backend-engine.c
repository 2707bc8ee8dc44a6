/* SPDX-License-Identifier: MIT */
/* The engine on a backend that is not the CPU's, which counts the work that the engine asks for. */
#include "tests/backend/counting.h"
#include "tests/engine/harness.h"
#include "tests/support/folder.h"
#include <stdio.h>
#include <unistd.h>

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

/* --- energy: a joule for each token of the one package --- */

#define ZONE "/sys/class/powercap/intel-rapl:0/"

static char root[FOLDER_PATH];
static uint64_t used; /* microjoules */

static void use_energy(uint64_t tokens)
{
    char text[32];
    used += tokens * 1000000;
    snprintf(text, sizeof(text), "%llu\n", (unsigned long long)used % 300000000);
    folder_put(root, ZONE "energy_uj", text);
    usleep(6000); /* a step takes longer than the time between two readings of the counter while prompts are computed */
}

static void assert_energy(const struct answer *a, double prompt, double token, double saved)
{
    const struct proto_energy *e = &a->last.energy;
    assert_true(e->known);
    assert_true(e->prompt_j > prompt - 1e-6 && e->prompt_j < prompt + 1e-6);
    assert_true(e->token_j > token - 1e-6 && e->token_j < token + 1e-6);
    assert_true(e->saved_j > saved - 1e-6 && e->saved_j < saved + 1e-6);
}

static void test_energy_is_shared_by_tokens(void **state)
{
    struct harness *h = *state;
    assert_int_equal(folder_make(root, "energy"), 0);
    assert_int_equal(folder_put(root, ZONE "name", "package-0\n"), 0);
    assert_int_equal(folder_put(root, ZONE "max_energy_range_uj", "300000000\n"), 0);
    used = 299000000; /* starts again soon */
    use_energy(0);
    counting_hook = use_energy;
    h->config.root = root;
    h->config.speculation.mode = PROTO_SPECULATE_OFF; /* a step computes one token of an answer */
    harness_start(h);

    /* The first token of an answer is of the prompt's last logits. */
    struct proto_request r = harness_raw(harness_story);
    struct answer *a = harness_run(h, &r);
    double prompt = (double)a->last.usage_prompt, n = (double)a->last.usage_completion;
    assert_int_equal(a->last.usage_cached, 0);
    assert_energy(a, prompt, (n - 1) / n, 0);

    /* Together with another one. */
    harness_hold(h);
    r = harness_raw(harness_story);
    struct proto_request other = harness_raw("Something else that is not cached, of another length.");
    uint64_t one = harness_submit(h, &r), two = harness_submit(h, &other);
    harness_go(h);
    a = harness_wait(h, one);
    double cached = (double)a->last.usage_cached;
    assert_true(cached > 0);
    assert_energy(a, prompt - cached, (n - 1) / n, cached);
    a = harness_wait(h, two);
    n = (double)a->last.usage_completion;
    assert_energy(a, (double)(a->last.usage_prompt - a->last.usage_cached), (n - 1) / n, (double)a->last.usage_cached);
    assert_true(harness_status(h, 0, "joules_saved") >= (long long)cached);
    assert_int_equal(harness_status(h, 0, "joules_prompt_token"), 1);

    /* A counter that cannot be read any more. */
    assert_int_equal(folder_put(root, ZONE "energy_uj", ""), 0);
    counting_hook = NULL;
    r = harness_raw("Once more.");
    a = harness_run(h, &r);
    assert_int_equal(a->last.type, PROTO_EV_DONE);
    assert_false(a->last.energy.known);
    harness_stop(h);
    assert_int_equal(folder_remove(root), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_engine_calls_the_chosen_backend, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_energy_is_shared_by_tokens, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

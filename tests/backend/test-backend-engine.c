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
    r.speculate = PROTO_SPECULATE_OFF; /* a proposal that fails is a row and no token; it depends on the time */
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

/* --- a backend that picks --- */

/* Three answers in one batch: the second wants logprobs, the third is sampled. */
static void ask_three(struct harness *h, struct answer out[3])
{
    uint64_t ids[3];
    harness_start(h);
    harness_hold(h);
    for (uint32_t i = 0; i < 3; i++) {
        struct proto_request r = i < 2 ? harness_raw(harness_story) : harness_seeded(harness_story);
        r.gen.logprobs = i == 1;
        r.gen.max_tokens = 30;
        r.gen.ignore_eos = false; /* it bans tokens: the largest logit is not all */
        ids[i] = harness_submit(h, &r);
    }
    harness_go(h);
    for (uint32_t i = 0; i < 3; i++) out[i] = answer_take(harness_wait(h, ids[i]));
    harness_stop(h);
}

static void test_a_backend_picks_the_same_tokens(void **state)
{
    struct harness *h = *state;
    struct answer want[3], got[3];
    uint64_t picks = 0;
    h->config.speculation.mode = PROTO_SPECULATE_OFF;
    const struct counts first = counting;
    ask_three(h, want);
    const struct counts before = counting;
    counting_picks = true;
    ask_three(h, got);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(want[i].last.type, PROTO_EV_DONE);
        assert_int_equal(got[i].last.type, PROTO_EV_DONE);
        assert_true(want[i].text.len > 0 && got[i].text.len == want[i].text.len);
        assert_memory_equal(got[i].text.data, want[i].text.data, want[i].text.len);
        if (i == 0) picks = want[i].last.usage_completion;
        answer_fini(&want[i]);
        answer_fini(&got[i]);
    }
    /* greedy without logprobs: ids alone; of the others rows */
    assert_int_equal(before.picks, first.picks);
    assert_int_equal(counting.picks - before.picks, picks);
    assert_int_equal(counting.rows - before.rows + picks, before.rows - first.rows);
    counting_picks = false;
}

/* --- a device that fails --- */

#define REQUESTS 6
#define ALL      (REQUESTS + 1) /* answers */

/* Prompts with a common beginning, of two users; the last one gets two answers. */
static void ask_all(struct harness *h, struct answer *out)
{
    uint64_t ids[ALL];
    harness_hold(h);
    for (unsigned i = 0; i < REQUESTS; i++) {
        char text[400];
        snprintf(text, sizeof(text), "%s And number %u.", i % 2 ? harness_story : "Something else that is asked.", i);
        struct proto_request r = harness_seeded(text);
        r.gen.n = i + 1 == REQUESTS ? 2 : 1;
        ids[i] = harness_submit_as(h, i + 1, 1000 + i % 2, &r);
    }
    ids[REQUESTS] = ids[REQUESTS - 1] + 1;
    harness_go(h);
    for (unsigned i = 0; i < ALL; i++) {
        struct answer *a = harness_wait(h, ids[i]);
        assert_int_equal(a->last.type, PROTO_EV_DONE);
        out[i] = answer_take(a);
    }
}

static void same_answers(struct answer *got, const struct answer *want)
{
    for (unsigned i = 0; i < ALL; i++) {
        assert_same(&got[i], &want[i]);
        answer_fini(&got[i]);
    }
}

/* Whichever step fails, also while blocks are read from the disk: no request ends, and the answers are the same. */
static void check_failures(struct harness *h, const struct answer *want, bool again)
{
    struct answer got[ALL];
    for (unsigned at = 1; at < 24; at += at < 6 ? 1 : 5) {
        const struct counts before = counting;
        harness_start(h);
        counting_fail = before.forwards + at;
        ask_all(h, got);
        assert_int_equal(counting_fail, 0);
        assert_int_equal(counting.recoveries, before.recoveries + 1);
        same_answers(got, want);
        if (again) { /* blocks of after the failure are used */
            ask_all(h, got);
            same_answers(got, want);
            assert_int_equal(counting.recoveries, before.recoveries + 1);
        }
        assert_all_blocks_free(h);
        if (again) harness_wait_disk(h); /* the next one finds blocks on disk, of before and after it */
        harness_stop(h);
    }
}

static void test_a_device_fails(void **state)
{
    struct harness *h = *state;
    struct answer want[ALL];
    h->config.parallel = 4;
    h->forgetful = true;
    harness_start(h);
    ask_all(h, want);
    harness_stop(h);
    check_failures(h, want, false);
    harness_dirs(h);
    check_failures(h, want, true);
    for (unsigned i = 0; i < ALL; i++) answer_fini(&want[i]);
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

/* Sessions made before the model's file was hashed keep their tokens over restarts, as long as the file is the same:
 * their texts may be other tokens. */
static void test_sessions_of_an_unknown_model(void **state)
{
    static const char *const texts[] = {"the first turn", "and the second", "and more"};
    struct harness *h = *state;
    struct answer *a, want[3];
    counting_unknown = true;
    harness_dirs(h);
    for (int restarts = 0; restarts < 2; restarts++) {
        harness_start(h);
        for (int i = 0; i < 3; i++) {
            struct proto_request r = harness_user(restarts ? "restarted" : "in one", texts[i]);
            r.gen.sampling.temperature = 1;
            r.gen.sampling.seed = 3;
            r.gen.max_tokens = 40;
            r.gen.ignore_eos = true;
            a = harness_run(h, &r);
            assert_done(a, PROTO_STOP_LENGTH);
            if (!restarts) {
                want[i] = answer_take(a);
                continue;
            }
            assert_int_equal(a->last.usage_prompt, want[i].last.usage_prompt);
            assert_same(&want[i], a);
            harness_forget(h);
            harness_stop(h);
            harness_start(h);
        }
        harness_stop(h);
    }
    counting_unknown = false;
    for (int i = 0; i < 3; i++) answer_fini(&want[i]);
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
        cmocka_unit_test_setup_teardown(test_a_backend_picks_the_same_tokens, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_a_device_fails, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_sessions_of_an_unknown_model, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_energy_is_shared_by_tokens, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

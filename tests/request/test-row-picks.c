/* SPDX-License-Identifier: MIT */
/* Tokens that all threads pick. Catches: another answer's row or history, a pick of a thread's memory that is not
 * clean, a state of a sampler that a pick ahead changes, a pick that is used twice. */
#include "daemon/request/row-picks.h"
#include "tests/engine/harness.h"
#include <errno.h>

enum { KINDS = 8 };

static size_t picked;  /* tokens so far */
static bool no_memory; /* for the threads */

void __real_row_picks_run(struct row_picks *x, const struct core *core);
void __wrap_row_picks_run(struct row_picks *x, const struct core *core);
void __wrap_row_picks_run(struct row_picks *x, const struct core *core)
{
    __real_row_picks_run(x, core);
    for (size_t i = 0; i < x->n; i++) picked += x->list[i].id >= 0;
}

int __real_sample_scratch_new(struct sample_scratch **out, uint32_t vocab);
int __wrap_sample_scratch_new(struct sample_scratch **out, uint32_t vocab);
int __wrap_sample_scratch_new(struct sample_scratch **out, uint32_t vocab)
{
    return no_memory ? -ENOMEM : __real_sample_scratch_new(out, vocab);
}

/* Greedy, truncation and mirostat, with and without penalties and a bias. */
static struct proto_request request(int kind)
{
    struct proto_request r = harness_raw(kind % 2 ? harness_story : "the sea");
    r.gen.max_tokens = 60;
    r.gen.ignore_eos = kind != 2;
    r.gen.sampling.temperature = kind ? 1 : 0;
    r.gen.sampling.seed = kind;
    if (kind % 4 == 3) r.gen.sampling.mirostat = 3;
    if (kind > 3) r.gen.sampling.repeat_penalty = 1.3;
    if (kind != 5) return r;
    r.gen.sampling.repeat_penalty = 100; /* every second token is 70: the newest one is not repeated */
    r.gen.sampling.repeat_last_n = 1;
    r.gen.biases = calloc(1, sizeof(*r.gen.biases));
    assert_non_null(r.gen.biases);
    r.gen.biases[0] = (struct proto_bias){.id = 70, .bias = 40};
    r.gen.n_biases = 1;
    return r;
}

/* All at once are as each alone, which no other thread picks for. @some: some tokens are picked ahead. */
static void compare(struct harness *h, bool some)
{
    struct answer alone[KINDS];
    uint64_t ids[KINDS];
    picked = 0;
    for (int i = 0; i < KINDS; i++) {
        struct proto_request r = request(i);
        alone[i] = answer_take(harness_run(h, &r));
    }
    assert_int_equal(picked, 0);
    harness_hold(h);
    for (int i = 0; i < KINDS; i++) {
        struct proto_request r = request(i);
        ids[i] = harness_submit(h, &r);
    }
    harness_go(h);
    for (int i = 0; i < KINDS; i++) {
        assert_same(harness_wait(h, ids[i]), &alone[i]);
        answer_fini(&alone[i]);
    }
    assert_int_equal(picked > 0, some);
}

static void start(struct harness *h, uint32_t threads)
{
    h->config.threads = threads;
    h->config.parallel = KINDS;
    harness_start(h);
}

static void test_same_tokens(void **state)
{
    start(*state, 2);
    compare(*state, true);
    compare(*state, true);
}

static void test_one_thread(void **state)
{
    start(*state, 1);
    compare(*state, false);
}

/* Without memory the answers pick as they advance; when there is some again, it is used. */
static void test_no_memory(void **state)
{
    start(*state, 2);
    no_memory = true;
    compare(*state, false);
    no_memory = false;
    compare(*state, true);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)
    const struct CMUnitTest tests[] = {TEST(test_same_tokens), TEST(test_one_thread), TEST(test_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

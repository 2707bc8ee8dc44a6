/* SPDX-License-Identifier: MIT */
#include "daemon/sample/rng.h"
#include "libcommon/error.h"
#include "tests/sample/fixture.h"
#include <math.h>

#define V 8

static struct sampling mirostat(float tau, float eta)
{
    struct sampling s = {.params = fixture_plain().p};
    s.params.mirostat = tau;
    s.params.mirostat_eta = eta;
    return s;
}

static void start(struct sampling *s)
{
    assert_int_equal(sampling_start(s, NULL, 0, NULL, 0), 0);
}

static int32_t pick(struct sampling *s, struct sample_scratch *x, const float *logits, double u)
{
    const struct logits_history none = {NULL, 0};
    int32_t id = -1;
    assert_int_equal(logits_chain_pick(&s->chain, x, (struct logits){.row = logits}, &none, u, &id), 0);
    return id;
}

static int32_t pick_accept(struct sampling *s, struct sample_scratch *x, const float *logits, double u)
{
    int32_t id = pick(s, x, logits, u);
    assert_int_equal(logits_chain_accept(&s->chain, id), 0);
    return id;
}

/* Surprises of 1.32 1.74 2.74 3.32 4.32 bits for ids 3 1 0 5 6; more than 40 for the others. */
static void fill_row(float *row)
{
    static const double prob[V] = {0.15, 0.3, 0, 0.4, 0, 0.1, 0.05, 0};
    for (int i = 0; i < V; i++) row[i] = prob[i] > 0 ? (float)log(prob[i]) : -30.0f - (float)i;
}

static int setup(void **state)
{
    return sample_scratch_new((struct sample_scratch **)state, V);
}

static int teardown(void **state)
{
    sample_scratch_free(*state);
    return 0;
}

static void test_bounds_by_hand(void **state)
{
    struct sampling s = mirostat(1.5f, 0.5f); /* mu 3: three pass, .4 .3 .15 of .85 */
    float row[V];
    fill_row(row);
    s.params.top_k = 1; /* has no effect */
    start(&s);
    assert_int_equal(pick_accept(&s, *state, row, 0.7 / 0.85 + 0.001), 0);
    assert_int_equal(pick(&s, *state, row, 0.999), 1); /* mu is 2.38, 0 has 2.74 */
    sampling_fini(&s);
    s = mirostat(0.1f, 1); /* mu .2: none passes, so the largest does; then mu is -1.02 */
    start(&s);
    for (int i = 0; i < 2; i++) assert_int_equal(pick_accept(&s, *state, row, 0.999), 3);
    sampling_fini(&s);
    const int32_t ban[] = {3};
    assert_int_equal(sampling_start(&s, NULL, 0, ban, 1), 0);
    assert_int_equal(pick(&s, *state, row, 0.999), 1);
    sampling_fini(&s);
}

static void test_bad_rows(void **state)
{
    struct sampling s = mirostat(1.5f, 0.5f);
    float bad[V] = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    int32_t id = -1;
    start(&s);
    assert_int_equal(sampling_pick(&s, *state, (struct logits){.row = bad}, NULL, 0, &id), -EIO);
    bad[0] = INFINITY;
    assert_int_equal(sampling_pick(&s, *state, (struct logits){.row = bad}, NULL, 0, &id), -EIO);
    assert_int_equal(id, -1);
    assert_int_equal(s.position, 0);
    sampling_fini(&s);
}

/* --- against a restatement of the definition in double --- */

struct expect {
    double p[V], mu;
    bool passes[V];
    bool close; /* an id is so close to the bound that rounding decides */
};

static void expect_row(struct expect *e, const float *row, double temperature)
{
    double sum = 0;
    int best = 0;
    bool any = false;
    e->close = false;
    for (int i = 0; i < V; i++) {
        sum += e->p[i] = exp(row[i] / temperature);
        if (row[i] > row[best]) best = i;
    }
    for (int i = 0; i < V; i++) {
        e->p[i] /= sum;
        e->passes[i] = -log2(e->p[i]) <= e->mu;
        e->close |= fabs(-log2(e->p[i]) - e->mu) < 1e-4;
        any |= e->passes[i];
    }
    if (!any) e->passes[best] = true;
}

/* Counted on a grid over u, the share of an id differs from its probability by less than two steps. */
static void assert_shares(struct sampling *s, struct sample_scratch *x, const float *row, const struct expect *e)
{
    enum { STEPS = 400 };
    int got[V] = {0};
    double sum = 0;
    for (int i = 0; i < V; i++) sum += e->passes[i] ? e->p[i] : 0;
    for (int i = 0; i < STEPS; i++) got[pick(s, x, row, (i + 0.5) / STEPS)]++;
    for (int i = 0; i < V; i++) {
        double want = e->passes[i] ? e->p[i] / sum * STEPS : 0;
        if (fabs(got[i] - want) > 2) fail_msg("id %d: %d of %d, not %g", i, got[i], STEPS, want);
    }
}

static void test_any_rows_against_the_definition(void **state)
{
    uint64_t at = 0;
    unsigned compared = 0;
#define U (rng_uniform(29, 0, at++))
    for (int n = 0; n < 60; n++) {
        float tau = (float)(0.5 + 2 * U), eta = (float)(0.05 + 0.9 * U);
        struct sampling s = mirostat(tau, eta);
        s.params.temperature = (float)(0.5 + U);
        struct expect e = {.mu = 2 * (double)s.params.mirostat};
        start(&s);
        for (int t = 0; t < 20; t++) {
            float row[V];
            for (int i = 0; i < V; i++) row[i] = (float)(U * 8 - 4);
            expect_row(&e, row, (double)s.params.temperature);
            if (!e.close) {
                assert_shares(&s, *state, row, &e);
                compared++;
            }
            int32_t id = pick_accept(&s, *state, row, U);
            e.mu -= (double)s.params.mirostat_eta * (-log2(e.p[id]) - (double)s.params.mirostat);
        }
        sampling_fini(&s);
    }
#undef U
    assert_true(compared > 1000);
}

/* Over a long answer the mean surprise is the one aimed at. Rows of 2000 ids by Zipf's law. */
static void test_the_mean_surprise_is_tau(void **state)
{
    enum { MANY = 2000, TOKENS = 1500 };
    static float many[MANY];
    struct sample_scratch *x = NULL;
    double sum = 0;
    assert_int_equal(sample_scratch_new(&x, MANY), 0);
    for (int i = 0; i < MANY; i++) sum += 1.0 / (i + 1);
    for (int i = 0; i < MANY; i++) many[(i * 7) % MANY] = (float)-log(i + 1);
    for (int tau = 3; tau <= 6; tau++) {
        struct sampling s = mirostat((float)tau, 0.1f);
        double total = 0;
        s.seed = 17;
        start(&s);
        for (int t = 0; t < TOKENS; t++) {
            int32_t id = -1;
            assert_int_equal(sampling_pick(&s, x, (struct logits){.row = many}, NULL, 0, &id), 0);
            total += -log2(exp((double)many[id]) / sum);
        }
        if (fabs(total / TOKENS - tau) > 0.1) fail_msg("%g bits, not %d", total / TOKENS, tau);
        sampling_fini(&s);
    }
    sample_scratch_free(x);
}

/* A token that another processor chose has no surprise: mu stays. */
static void test_a_token_that_was_not_picked_leaves_mu(void **state)
{
    struct sampling s = mirostat(1.5f, 0.5f);
    float row[V];
    fill_row(row);
    start(&s);
    assert_int_equal(pick(&s, *state, row, 0.999), 0); /* mu 3 */
    assert_int_equal(logits_chain_accept(&s.chain, 6), 0);
    assert_int_equal(pick_accept(&s, *state, row, 0.999), 0);
    assert_int_equal(pick(&s, *state, row, 0.999), 1); /* mu 2.38 */
    logits_chain_rollback(&s.chain, 1);
    assert_int_equal(pick(&s, *state, row, 0.999), 0);
    sampling_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds_by_hand),
        cmocka_unit_test(test_bad_rows),
        cmocka_unit_test(test_any_rows_against_the_definition),
        cmocka_unit_test(test_the_mean_surprise_is_tau),
        cmocka_unit_test(test_a_token_that_was_not_picked_leaves_mu),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

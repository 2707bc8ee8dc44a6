/* SPDX-License-Identifier: MIT */
#include "daemon/engine/rng.h"
#include "daemon/engine/sample.h"
#include "libcommon/error.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define V 8

/* Probabilities .4 .3 .15 .1 .05 at ids 3 1 0 5 6; 2, 4 and 7 next to nothing. */
static float row[V];
static const double prob[V] = {0.15, 0.3, 0, 0.4, 0, 0.1, 0.05, 0};

static int setup(void **state)
{
    for (int i = 0; i < V; i++) row[i] = prob[i] > 0 ? (float)log(prob[i]) : -30.0f - (float)i;
    return sampler_new((struct sampler **)state, V);
}

static int teardown(void **state)
{
    sampler_free(*state);
    return 0;
}

static struct sample_params plain(void)
{
    return (struct sample_params){.top_p = 1, .temperature = 1, .repeat = 1, .repeat_n = 64};
}

static int32_t pick(struct sampler *s, const struct sample_params *p, const float *logits, double u)
{
    int32_t id = -1;
    assert_int_equal(sampler_pick(s, p, logits, NULL, 0, u, &id), 0);
    return id;
}

/* Which ids a sweep over u can give. */
static unsigned reachable(struct sampler *s, const struct sample_params *p)
{
    unsigned set = 0;
    for (int i = 0; i < 2000; i++) set |= 1u << pick(s, p, row, i / 2000.0);
    return set;
}

static void test_greedy_ties_take_the_lowest(void **state)
{
    struct sample_params p = plain();
    p.temperature = 0;
    assert_int_equal(pick(*state, &p, row, 0.99), 3);
    const float tie[V] = {1, 5, 2, 5, 5, 0, 0, 0};
    assert_int_equal(pick(*state, &p, tie, 0.99), 1);
}

/* The inverse of the cumulated distribution, by falling probability. */
static void test_draw_is_the_inverse_cdf(void **state)
{
    struct sample_params p = plain();
    const struct {
        double u;
        int32_t id;
    } want[] = {{0, 3},    {0.39, 3}, {0.41, 1}, {0.69, 1}, {0.71, 0},
                {0.84, 0}, {0.86, 5}, {0.94, 5}, {0.96, 6}, {0.9999, 6}};
    for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++)
        assert_int_equal(pick(*state, &p, row, want[i].u), want[i].id);
    const float tie[V] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (int i = 0; i < V; i++) assert_int_equal(pick(*state, &p, tie, (i + 0.5) / V), i);
}

static void test_top_k(void **state)
{
    struct sample_params p = plain();
    p.top_k = 1;
    assert_int_equal(reachable(*state, &p), 1u << 3);
    p.top_k = 3;
    assert_int_equal(reachable(*state, &p), 1u << 3 | 1u << 1 | 1u << 0);
    p.top_k = 100;
    assert_int_equal(reachable(*state, &p), 1u << 3 | 1u << 1 | 1u << 0 | 1u << 5 | 1u << 6);
}

static void test_top_p(void **state)
{
    struct sample_params p = plain();
    p.top_p = 0.39f;
    assert_int_equal(reachable(*state, &p), 1u << 3);
    p.top_p = 0.41f;
    assert_int_equal(reachable(*state, &p), 1u << 3 | 1u << 1);
    p.top_p = 0.8f;
    assert_int_equal(reachable(*state, &p), 1u << 3 | 1u << 1 | 1u << 0);
    p.top_p = 1e-9f;
    assert_int_equal(reachable(*state, &p), 1u << 3);
    /* after top-k the probabilities are those of what is left: .57 .43 */
    p.top_k = 2;
    p.top_p = 0.56f;
    assert_int_equal(reachable(*state, &p), 1u << 3);
}

static void test_min_p(void **state)
{
    struct sample_params p = plain();
    p.min_p = 0.3f; /* of .4: .12 and above */
    assert_int_equal(reachable(*state, &p), 1u << 3 | 1u << 1 | 1u << 0);
    p.min_p = 1.0f;
    assert_int_equal(reachable(*state, &p), 1u << 3);
}

static void test_temperature(void **state)
{
    struct sample_params p = plain();
    p.temperature = 0.5f; /* p squared: .16 .09 .0225 .01 .0025, together .285 */
    assert_int_equal(pick(*state, &p, row, 0.16 / 0.285 - 0.005), 3);
    assert_int_equal(pick(*state, &p, row, 0.16 / 0.285 + 0.005), 1);
    p.temperature = 1e-38f;
    assert_int_equal(reachable(*state, &p), 1u << 3);
}

/* Once for each id in the window, however often it is there. */
static void test_repeat_penalty(void **state)
{
    struct sample_params p = plain();
    const float logits[V] = {4, 3, -1, -1.5f, -40, -40, -40, -40};
    const int32_t history[] = {1, 0, 0};
    int32_t id;
    p.temperature = 0;
    p.repeat = 1.5f;
    assert_int_equal(sampler_pick(*state, &p, logits, history, 3, 0, &id), 0);
    assert_int_equal(id, 0); /* 4/1.5 > 3/1.5 */
    p.repeat_n = 2;
    assert_int_equal(sampler_pick(*state, &p, logits, history, 3, 0, &id), 0);
    assert_int_equal(id, 1); /* 3 > 4/1.5 */
    const float low[V] = {-40, -40, -1, -1.4f, -40, -40, -40, -40};
    const int32_t two[] = {2};
    p.repeat = 1.5f; /* a negative logit is multiplied: -1.5 < -1.4 */
    assert_int_equal(sampler_pick(*state, &p, low, two, 1, 0, &id), 0);
    assert_int_equal(id, 3);
}

static void test_ban_and_bad_rows(void **state)
{
    struct sample_params p = plain();
    const int32_t ban[] = {3, 1};
    p.ban = ban;
    p.n_ban = 2;
    assert_int_equal(reachable(*state, &p), 1u << 0 | 1u << 5 | 1u << 6);
    p.temperature = 0;
    assert_int_equal(pick(*state, &p, row, 0), 0);
    float bad[V];
    int32_t id = -1;
    for (int i = 0; i < V; i++) bad[i] = NAN;
    assert_int_equal(sampler_pick(*state, &p, bad, NULL, 0, 0, &id), -EIO);
    p.temperature = 1;
    assert_int_equal(sampler_pick(*state, &p, bad, NULL, 0, 0, &id), -EIO);
    bad[2] = INFINITY;
    assert_int_equal(sampler_pick(*state, &p, bad, NULL, 0, 0, &id), -EIO);
    assert_int_equal(id, -1);
}

/* Drawn frequencies against the distribution: chi-square with 4 degrees of freedom, 1e-5 quantile 28.5; fixed numbers.
 */
static void test_frequencies(void **state)
{
    struct sample_params p = plain();
    const int n = 20000;
    int got[V] = {0};
    for (int i = 0; i < n; i++) got[pick(*state, &p, row, rng_uniform(7, 0, (uint64_t)i))]++;
    double chi = 0;
    for (int i = 0; i < V; i++) {
        if (prob[i] > 0)
            chi += (got[i] - n * prob[i]) * (got[i] - n * prob[i]) / (n * prob[i]);
        else
            assert_int_equal(got[i], 0);
    }
    assert_true(chi < 28.5);
}

/* Top-k of a long row against a plain search. */
static void test_top_k_of_many(void **state)
{
    enum { MANY = 5000 };
    static float many[MANY];
    struct sampler *s = NULL;
    assert_int_equal(sampler_new(&s, MANY), 0);
    for (int i = 0; i < MANY; i++) many[i] = (float)((i * 7919) % 1000) / 100.0f;
    struct sample_params p = plain();
    for (uint32_t k = 1; k < 60; k += 7) {
        p.top_k = k;
        p.temperature = 1e30f; /* all equal, in their order */
        for (uint32_t j = 0; j < k; j++) {
            int32_t id = pick(s, &p, many, (j + 0.5) / k), rank = 0;
            for (int i = 0; i < MANY; i++) rank += many[i] > many[id] || (many[i] == many[id] && i < id);
            assert_int_equal(rank, j);
        }
    }
    sampler_free(s);
}

static void test_request_values(void **state)
{
    struct sample_params p;
    struct proto_sampling r = {NAN, NAN, NAN, NAN, -1, -1};
    sample_params_init(&p);
    assert_int_equal(sample_params_request(&p, &r), 0);
    assert_int_equal(p.top_k, 40);
    assert_true(p.top_p == 0.95f && p.min_p == 0.05f && p.temperature == 0.7f && p.repeat == 1.0f);
    r.top_k = 0;
    r.temperature = 0;
    assert_int_equal(sample_params_request(&p, &r), 0);
    assert_int_equal(p.top_k, 0);
    assert_true(p.temperature == 0);
    const struct proto_sampling bad[] = {
        {-0.1f, NAN, NAN, NAN, -1, -1}, {INFINITY, NAN, NAN, NAN, -1, -1}, {NAN, -0.1f, NAN, NAN, -1, -1},
        {NAN, 1.1f, NAN, NAN, -1, -1},  {NAN, NAN, 1.1f, NAN, -1, -1},     {NAN, NAN, NAN, 0, -1, -1},
        {NAN, NAN, NAN, NAN, -2, -1},   {NAN, NAN, NAN, NAN, -1, -2},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        sample_params_init(&p);
        assert_int_equal(sample_params_request(&p, &bad[i]), -EINVAL);
        assert_non_null(strstr(error_text(-EINVAL), " is "));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_ties_take_the_lowest),
        cmocka_unit_test(test_draw_is_the_inverse_cdf),
        cmocka_unit_test(test_top_k),
        cmocka_unit_test(test_top_p),
        cmocka_unit_test(test_min_p),
        cmocka_unit_test(test_temperature),
        cmocka_unit_test(test_repeat_penalty),
        cmocka_unit_test(test_ban_and_bad_rows),
        cmocka_unit_test(test_frequencies),
        cmocka_unit_test(test_top_k_of_many),
        cmocka_unit_test(test_request_values),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

/* SPDX-License-Identifier: MIT */
/* Bias, penalties, the greedy and the truncation sampler, against their definitions. */
#include "daemon/model/items.h"
#include "daemon/sample/rng.h"
#include "libcommon/error.h"
#include "tests/sample/fixture.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define V 8

/* Probabilities .4 .3 .15 .1 .05 at ids 3 1 0 5 6; 2, 4 and 7 next to nothing. */
static float row[V];
static const double prob[V] = {0.15, 0.3, 0, 0.4, 0, 0.1, 0.05, 0};

static int setup(void **state)
{
    for (int i = 0; i < V; i++) row[i] = prob[i] > 0 ? (float)log(prob[i]) : -30.0f - (float)i;
    return sample_scratch_new((struct sample_scratch **)state, V);
}

static int teardown(void **state)
{
    sample_scratch_free(*state);
    return 0;
}

static int32_t pick(struct sample_scratch *s, const struct fixture_request *w, const float *logits, double u)
{
    int32_t id = -1;
    assert_int_equal(fixture_pick(s, w, logits, NULL, 0, u, &id), 0);
    return id;
}

/* The set of ids that a sweep over u gives. */
static unsigned reachable(struct sample_scratch *s, const struct fixture_request *w)
{
    unsigned set = 0;
    for (int i = 0; i < 2000; i++) set |= 1u << pick(s, w, row, i / 2000.0);
    return set;
}

static void test_greedy_ties_take_the_lowest(void **state)
{
    struct fixture_request w = fixture_plain();
    w.p.temperature = 0;
    assert_int_equal(pick(*state, &w, row, 0.99), 3);
    const float tie[V] = {1, 5, 2, 5, 5, 0, 0, 0};
    assert_int_equal(pick(*state, &w, tie, 0.99), 1);
}

/* The inverse of the cumulated distribution, by falling probability. */
static void test_draw_is_the_inverse_cdf(void **state)
{
    struct fixture_request w = fixture_plain();
    const struct {
        double u;
        int32_t id;
    } want[] = {{0, 3},    {0.39, 3}, {0.41, 1}, {0.69, 1}, {0.71, 0},
                {0.84, 0}, {0.86, 5}, {0.94, 5}, {0.96, 6}, {0.9999, 6}};
    for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++)
        assert_int_equal(pick(*state, &w, row, want[i].u), want[i].id);
    const float tie[V] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (int i = 0; i < V; i++) assert_int_equal(pick(*state, &w, tie, (i + 0.5) / V), i);
}

static void test_top_k(void **state)
{
    struct fixture_request w = fixture_plain();
    w.p.top_k = 1;
    assert_int_equal(reachable(*state, &w), 1u << 3);
    w.p.top_k = 3;
    assert_int_equal(reachable(*state, &w), 1u << 3 | 1u << 1 | 1u << 0);
    w.p.top_k = 100;
    assert_int_equal(reachable(*state, &w), 1u << 3 | 1u << 1 | 1u << 0 | 1u << 5 | 1u << 6);
}

static void test_top_p(void **state)
{
    struct fixture_request w = fixture_plain();
    w.p.top_p = 0.39f;
    assert_int_equal(reachable(*state, &w), 1u << 3);
    w.p.top_p = 0.41f;
    assert_int_equal(reachable(*state, &w), 1u << 3 | 1u << 1);
    w.p.top_p = 0.8f;
    assert_int_equal(reachable(*state, &w), 1u << 3 | 1u << 1 | 1u << 0);
    w.p.top_p = 1e-9f;
    assert_int_equal(reachable(*state, &w), 1u << 3);
    /* after top-k the probabilities are those of what is left: .57 .43 */
    w.p.top_k = 2;
    w.p.top_p = 0.56f;
    assert_int_equal(reachable(*state, &w), 1u << 3);
}

static void test_min_p(void **state)
{
    struct fixture_request w = fixture_plain();
    w.p.min_p = 0.3f; /* of .4: .12 and above */
    assert_int_equal(reachable(*state, &w), 1u << 3 | 1u << 1 | 1u << 0);
    w.p.min_p = 1.0f;
    assert_int_equal(reachable(*state, &w), 1u << 3);
}

static void test_temperature(void **state)
{
    struct fixture_request w = fixture_plain();
    w.p.temperature = 0.5f; /* p squared: .16 .09 .0225 .01 .0025, together .285 */
    assert_int_equal(pick(*state, &w, row, 0.16 / 0.285 - 0.005), 3);
    assert_int_equal(pick(*state, &w, row, 0.16 / 0.285 + 0.005), 1);
    w.p.temperature = 1e-38f;
    assert_int_equal(reachable(*state, &w), 1u << 3);
}

/* Once for each id in the window, however often it appears. */
static void test_repeat_penalty(void **state)
{
    struct fixture_request w = fixture_plain();
    const float logits[V] = {4, 3, -1, -1.5f, -40, -40, -40, -40};
    const int32_t history[] = {1, 0, 0};
    int32_t id;
    w.p.temperature = 0;
    w.p.repeat = 1.5f;
    assert_int_equal(fixture_pick(*state, &w, logits, history, 3, 0, &id), 0);
    assert_int_equal(id, 0); /* 4/1.5 > 3/1.5 */
    w.p.repeat_n = 2;
    assert_int_equal(fixture_pick(*state, &w, logits, history, 3, 0, &id), 0);
    assert_int_equal(id, 1);                                         /* 3 > 4/1.5 */
    const int32_t image[] = {1, ITEM_EMBD, ITEM_EMBD, 0, ITEM_EMBD}; /* the newest two tokens */
    assert_int_equal(fixture_pick(*state, &w, logits, image, 5, 0, &id), 0);
    assert_int_equal(id, 0); /* 4/1.5 > 3/1.5 */
    const float low[V] = {-40, -40, -1, -1.4f, -40, -40, -40, -40};
    const int32_t two[] = {2};
    w.p.repeat = 1.5f; /* a negative logit is multiplied: -1.5 < -1.4 */
    assert_int_equal(fixture_pick(*state, &w, low, two, 1, 0, &id), 0);
    assert_int_equal(id, 3);
}

static void test_ban_and_bad_rows(void **state)
{
    struct fixture_request w = fixture_plain();
    const int32_t ban[] = {3, 1};
    w.ban = ban;
    w.n_ban = 2;
    assert_int_equal(reachable(*state, &w), 1u << 0 | 1u << 5 | 1u << 6);
    w.p.temperature = 0;
    assert_int_equal(pick(*state, &w, row, 0), 0);
    float bad[V];
    int32_t id = -1;
    for (int i = 0; i < V; i++) bad[i] = NAN;
    assert_int_equal(fixture_pick(*state, &w, bad, NULL, 0, 0, &id), -EIO);
    w.p.temperature = 1;
    assert_int_equal(fixture_pick(*state, &w, bad, NULL, 0, 0, &id), -EIO);
    bad[2] = INFINITY;
    assert_int_equal(fixture_pick(*state, &w, bad, NULL, 0, 0, &id), -EIO);
    assert_int_equal(id, -1);
}

/* Drawn frequencies against the distribution: chi-square with 4 degrees of freedom, 1e-5 quantile 28.5; fixed numbers.
 */
static void test_frequencies(void **state)
{
    struct fixture_request w = fixture_plain();
    const int n = 20000;
    int got[V] = {0};
    for (int i = 0; i < n; i++) got[pick(*state, &w, row, rng_uniform(7, 0, (uint64_t)i))]++;
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
    enum { MANY = 5003 };
    static float many[MANY];
    struct sample_scratch *s = NULL;
    assert_int_equal(sample_scratch_new(&s, MANY), 0);
    for (int i = 0; i < MANY; i++) many[i] = (float)((i * 7919) % 1000) / 100.0f;
    struct fixture_request w = fixture_plain();
    for (uint32_t k = 1; k < 60; k += 7) {
        w.p.top_k = k;
        w.p.temperature = 1e30f; /* all equal, in their order */
        for (uint32_t j = 0; j < k; j++) {
            int32_t id = pick(s, &w, many, (j + 0.5) / k), rank = 0;
            for (int i = 0; i < MANY; i++) rank += many[i] > many[id] || (many[i] == many[id] && i < id);
            assert_int_equal(rank, j);
        }
    }
    w.p.temperature = 0;
    for (int i = 0; i < MANY; i += 97) { /* the first of two, wherever it is; NaN is passed over */
        many[i] = 50;
        many[MANY - 1] = 50;
        many[(i + 1) % MANY] = NAN;
        assert_int_equal(pick(s, &w, many, 0), i);
        many[i] = NAN;
        assert_int_equal(pick(s, &w, many, 0), MANY - 1);
    }
    sample_scratch_free(s);
}

/* --- against a second implementation, which sorts everything and computes in double --- */

struct expect {
    int id[V], n;
    double p[V]; /* by place */
};

static int by_p(const void *a, const void *b)
{
    const double *x = a, *y = b;
    if (x[0] != y[0]) return x[0] < y[0] ? 1 : -1;
    return (x[1] > y[1]) - (x[1] < y[1]);
}

/* Pairs (key, value), by falling key. */
static void sort_pairs(double (*pairs)[2], int n)
{
    qsort(pairs, (size_t)n, sizeof(*pairs), by_p);
}

static void normal(struct expect *e)
{
    double sum = 0;
    for (int i = 0; i < e->n; i++) sum += e->p[i];
    for (int i = 0; i < e->n; i++) e->p[i] /= sum;
}

static void expect_typical(struct expect *e, double tau)
{
    double h = 0, pairs[V][2], part = 0;
    bool stay[V] = {false};
    int n = 0;
    for (int i = 0; i < e->n; i++) h -= e->p[i] * log(e->p[i]);
    for (int i = 0; i < e->n; i++) {
        pairs[i][0] = -fabs(-log(e->p[i]) - h);
        pairs[i][1] = i;
    }
    sort_pairs(pairs, e->n);
    for (int i = 0; i < e->n && (i == 0 || part < tau); i++) {
        stay[(int)pairs[i][1]] = true;
        part += e->p[(int)pairs[i][1]];
    }
    for (int i = 0; i < e->n; i++)
        if (stay[i]) {
            e->id[n] = e->id[i];
            e->p[n++] = e->p[i];
        }
    e->n = n;
    normal(e);
}

static void expect_first(struct expect *e, int n)
{
    e->n = n < e->n ? n : e->n;
    normal(e);
}

/* The distribution over ids that the parameters and @logits make. */
static void expected(double *out, const struct fixture_request *w, const float *logits, const int32_t *history, int n)
{
    struct expect e = {.n = V};
    double x[V], pairs[V][2], part = 0;
    int k = 0;
    for (int i = 0; i < V; i++) {
        int c = 0;
        x[i] = logits[i];
        for (size_t b = 0; b < w->n_bias; b++)
            if (w->bias[b].id == i) x[i] += w->bias[b].bias;
        for (int h = n > (int)w->p.repeat_n ? n - (int)w->p.repeat_n : 0; h < n; h++) c += history[h] == i;
        if (c) x[i] = (x[i] > 0 ? x[i] / w->p.repeat : x[i] * w->p.repeat) - c * w->p.frequency - w->p.presence;
        pairs[i][0] = x[i];
        pairs[i][1] = i;
    }
    sort_pairs(pairs, V);
    for (int i = 0; i < V; i++) {
        e.id[i] = (int)pairs[i][1];
        e.p[i] = exp(pairs[i][0]);
    }
    normal(&e);
    if (w->p.top_k) expect_first(&e, (int)w->p.top_k);
    if (w->p.typical_p < 1) expect_typical(&e, w->p.typical_p);
    if (w->p.top_p < 1) {
        for (k = 0; k < e.n && (k == 0 || part < w->p.top_p); k++) part += e.p[k];
        expect_first(&e, k);
    }
    for (k = 1; k < e.n && e.p[k] >= w->p.min_p * e.p[0];) k++;
    expect_first(&e, k);
    for (int i = 0; i < e.n; i++) e.p[i] = pow(e.p[i], 1 / (double)w->p.temperature);
    normal(&e);
    for (int i = 0; i < V; i++) out[i] = 0;
    for (int i = 0; i < e.n; i++) out[e.id[i]] = e.p[i];
}

/* A token's share of [0, 1) is its probability: counted on a grid, it differs by less than two steps. */
static void assert_shares(struct sample_scratch *s, const struct fixture_request *w, const float *logits,
                          const int32_t *history, int n, const double *want)
{
    enum { STEPS = 2000 };
    int got[V] = {0};
    for (int i = 0; i < STEPS; i++) {
        int32_t id = -1;
        assert_int_equal(fixture_pick(s, w, logits, history, (size_t)n, (i + 0.5) / STEPS, &id), 0);
        got[id]++;
    }
    for (int i = 0; i < V; i++)
        if (fabs(got[i] - want[i] * STEPS) > 2) fail_msg("id %d: %d of %d, not %g", i, got[i], STEPS, want[i]);
}

/* Upper 1e-5 quantiles of chi-square with 1 to 7 degrees of freedom. */
static const double quantile[V] = {0, 19.5, 23.0, 25.9, 28.5, 30.9, 33.1, 35.3};

static void assert_chi_square(const int *got, int n, const double *want)
{
    double chi = 0;
    int cells = 0;
    for (int i = 0; i < V; i++) {
        if (want[i] * n < 1) {
            assert_true(got[i] < 30);
            continue;
        }
        cells++;
        chi += (got[i] - n * want[i]) * (got[i] - n * want[i]) / (n * want[i]);
    }
    if (cells > 1 && chi >= quantile[cells - 1]) fail_msg("chi-square is %g with %d cells", chi, cells);
}

static void assert_draws(struct sample_scratch *s, const struct fixture_request *w, const float *logits,
                         const int32_t *history, int n, const double *want)
{
    enum { DRAWS = 20000 };
    int got[V] = {0};
    for (int i = 0; i < DRAWS; i++) {
        int32_t id = -1;
        double u = rng_uniform(11, 0, (uint64_t)i);
        assert_int_equal(fixture_pick(s, w, logits, history, (size_t)n, u, &id), 0);
        got[id]++;
    }
    assert_chi_square(got, DRAWS, want);
}

/* Rows and parameters at random; every eighth also by draws. */
static void test_any_parameters_against_their_definition(void **state)
{
    static const struct sample_bias biases[] = {{2, 1.5f}, {5, -3}, {2, 0.25f}};
    uint64_t at = 0;
    for (int n = 0; n < 400; n++) {
        struct fixture_request w = fixture_plain();
        float logits[V];
        int32_t history[12];
        double want[V];
#define U (rng_uniform(23, 0, at++))
        for (int i = 0; i < V; i++) logits[i] = (float)(U * 6 - 3);
        for (int i = 0; i < 12; i++) history[i] = (int32_t)(U * V);
        if (U < 0.3) w.p.top_k = 1 + (uint32_t)(U * V);
        if (U < 0.5) w.p.typical_p = (float)U;
        if (U < 0.3) w.p.top_p = (float)U;
        if (U < 0.3) w.p.min_p = (float)U;
        if (U < 0.5) w.p.temperature = (float)(0.3 + U);
        if (U < 0.3) w.p.repeat = (float)(0.5 + U);
        if (U < 0.3) w.p.frequency = (float)(U * 4 - 2);
        if (U < 0.3) w.p.presence = (float)(U * 4 - 2);
        w.p.repeat_n = (uint32_t)(U * 16);
        w.bias = biases;
        w.n_bias = (size_t)(U * 4);
#undef U
        expected(want, &w, logits, history, 12);
        assert_shares(*state, &w, logits, history, 12, want);
        if (n % 8 == 0) assert_draws(*state, &w, logits, history, 12, want);
    }
}

/* The likeliest token is not typical when the others are many. .4 and seven of .0857: H is
 * 2.15, -log p .92 and 2.46. */
static void test_typical_leaves_out_the_likeliest(void **state)
{
    struct fixture_request w = fixture_plain();
    float flat[V];
    for (int i = 0; i < V; i++) flat[i] = (float)log(i == 4 ? 0.4 : 0.6 / 7);
    w.p.typical_p = 0.5f; /* six of them are .514 */
    unsigned set = 0;
    for (int i = 0; i < 2000; i++) set |= 1u << pick(*state, &w, flat, i / 2000.0);
    assert_int_equal(set, 0x6f); /* 0 1 2 3 5 6: of equals the lowest */
    w.p.typical_p = 0;
    set = 0;
    for (int i = 0; i < 2000; i++) set |= 1u << pick(*state, &w, flat, i / 2000.0);
    assert_int_equal(set, 1);
}

static void test_penalties_by_count(void **state)
{
    struct fixture_request w = fixture_plain();
    const float logits[V] = {4, 3.9f, 3.8f, -9, -9, -9, -9, -9};
    const int32_t history[] = {0, 1, 0, 99, -1};
    int32_t id;
    w.p.temperature = 0;
    w.p.presence = 0.5f; /* 3.5 3.4 3.8 */
    assert_int_equal(fixture_pick(*state, &w, logits, history, 5, 0, &id), 0);
    assert_int_equal(id, 2);
    w.p.presence = 0;
    w.p.frequency = 0.11f; /* 3.78 3.79 3.8 */
    assert_int_equal(fixture_pick(*state, &w, logits, history, 5, 0, &id), 0);
    assert_int_equal(id, 2);
    w.p.frequency = 0.09f; /* 3.82 3.81 3.8 */
    assert_int_equal(fixture_pick(*state, &w, logits, history, 5, 0, &id), 0);
    assert_int_equal(id, 0);
    w.p.frequency = 0.095f; /* 3.81 3.805 */
    w.p.presence = -0.5f;
    w.p.repeat_n = 4; /* 0 once: 4.405, 1: 4.305 */
    assert_int_equal(fixture_pick(*state, &w, logits, history, 5, 0, &id), 0);
    assert_int_equal(id, 0);
    w.p.repeat_n = 0;
    w.p.presence = 2;
    assert_int_equal(fixture_pick(*state, &w, logits, history, 5, 0, &id), 0);
    assert_int_equal(id, 0);
}

static void test_bias(void **state)
{
    const struct sample_bias b[] = {{5, 100}, {3, -100}, {1000, 5}, {-1, 5}, {5, -1}, {1, 99.5f}};
    const int32_t ban[] = {1};
    struct fixture_request w = fixture_plain();
    w.bias = b;
    w.n_bias = sizeof(b) / sizeof(*b);
    w.p.temperature = 0;
    assert_int_equal(pick(*state, &w, row, 0), 1); /* log .3 + 99.5 is above log .1 + 99 */
    w.ban = ban;
    w.n_ban = 1;
    assert_int_equal(pick(*state, &w, row, 0), 5);
}

/* The picks of many combinations of parameters stay what they are: their hash is known. */
static void test_golden(void **state)
{
    enum { WIDE = 300 };
    static float wide[WIDE];
    static const uint32_t top_k[] = {0, 1, 40, 1000}, last[] = {5, 64};
    static const float top_p[] = {1, 0.95f, 0.3f}, min_p[] = {0, 0.05f, 0.5f}, temperature[] = {0, 0.7f, 1.3f},
                       repeat[] = {1, 1.1f, 0.9f};
    const int32_t ban[] = {7, 11};
    int32_t history[40];
    struct sample_scratch *s = NULL;
    uint64_t hash = UINT64_C(14695981039346656037), draw = 0;
    assert_int_equal(sample_scratch_new(&s, WIDE), 0);
    for (int i = 0; i < 40; i++) history[i] = (int32_t)(rng_uniform(3, 0, (uint64_t)i) * WIDE);
    for (int n = 0; n < 4 * 3 * 3 * 3 * 3 * 2; n++) {
        struct fixture_request w = fixture_plain();
        w.p.top_k = top_k[n % 4];
        w.p.top_p = top_p[n / 4 % 3];
        w.p.min_p = min_p[n / 12 % 3];
        w.p.temperature = temperature[n / 36 % 3];
        w.p.repeat = repeat[n / 108 % 3];
        w.p.repeat_n = last[n / 324];
        w.ban = ban;
        w.n_ban = 2;
        for (int k = 0; k < 4; k++) {
            int32_t id = -1;
            for (int i = 0; i < WIDE; i++)
                wide[i] = (float)(rng_uniform(5, (uint32_t)(n % 7 + k), (uint64_t)i) * 16 - 12);
            assert_int_equal(fixture_pick(s, &w, wide, history, 40, rng_uniform(7, 0, draw++), &id), 0);
            hash = (hash ^ (uint64_t)id) * UINT64_C(1099511628211);
        }
    }
    assert_true(hash == UINT64_C(8002432550927106758));
    sample_scratch_free(s);
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
        cmocka_unit_test(test_any_parameters_against_their_definition),
        cmocka_unit_test(test_typical_leaves_out_the_likeliest),
        cmocka_unit_test(test_penalties_by_count),
        cmocka_unit_test(test_bias),
        cmocka_unit_test(test_golden),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

/* SPDX-License-Identifier: MIT */
/* The estimate of step times: what it learns, and that it is what the formulas say. */
#include "daemon/sched/step-time.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static uint64_t rnd_state = 1;

static double rnd(void)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(rnd_state >> 33) / (1ull << 31);
}

/* ms: the step, a decode token, a prefill token, a thousand pairs of either */
static const double machine[SCHED_TIME_TERMS] = {20, 2.5, 3, 0.9, 0.25};

static double truth(const struct sched_load *x, double slow)
{
    return slow * (machine[0] + machine[1] * x->decode + machine[2] * x->prefill + machine[3] * x->decode_kv +
                   machine[4] * x->prefill_kv);
}

/* A step as a daemon has them: some decode, sometimes a chunk. */
static struct sched_load some_load(void)
{
    struct sched_load x = {.decode = (uint32_t)(rnd() * 16)};
    if (x.decode == 0 || rnd() < 0.3) x.prefill = 1 + (uint32_t)(rnd() * 256);
    x.decode_kv = x.decode * rnd() * 2;
    x.prefill_kv = x.prefill * rnd() * 2;
    return x;
}

static double worst(const struct sched_time *t, double slow)
{
    double most = 0;
    for (int i = 0; i < 200; i++) {
        struct sched_load x = some_load();
        most = fmax(most, fabs(log(sched_time_of(t, &x) / truth(&x, slow))));
    }
    return exp(most);
}

static void test_learns_a_machine(void **state)
{
    struct sched_time t;
    sched_time_init(&t);
    for (int i = 0; i < 300; i++) {
        struct sched_load x = some_load();
        sched_time_learn(&t, &x, truth(&x, 1));
    }
    assert_true(worst(&t, 1) < 1.1);
}

static void test_noise_and_outliers(void **state)
{
    struct sched_time t;
    sched_time_init(&t);
    for (int i = 0; i < 500; i++) {
        struct sched_load x = some_load();
        double noise = 0.9 + 0.2 * rnd();
        if (i % 50 == 7) noise = 100; /* the machine was elsewhere */
        sched_time_learn(&t, &x, noise * truth(&x, 1));
    }
    assert_true(worst(&t, 1) < 1.5);
}

static void test_one_bad_sample(void **state)
{
    struct sched_time t;
    sched_time_init(&t);
    struct sched_load x = {.decode = 4, .decode_kv = 1};
    for (int i = 0; i < 100; i++) sched_time_learn(&t, &x, truth(&x, 1));
    double before = sched_time_of(&t, &x);
    sched_time_learn(&t, &x, 1e6);
    assert_true(sched_time_of(&t, &x) < 1.1 * before);
    sched_time_learn(&t, &x, NAN);
    sched_time_learn(&t, &x, INFINITY);
    sched_time_learn(&t, &x, -1);
    sched_time_learn(&t, &x, 0);
    assert_true(sched_time_of(&t, &x) < 1.1 * before);
}

/* A first sample that is wrong, and a machine that becomes slower: believed after a few. */
static void test_believes_a_change(void **state)
{
    struct sched_time t;
    sched_time_init(&t);
    struct sched_load x = {.decode = 4, .decode_kv = 1};
    sched_time_learn(&t, &x, 1e4);
    for (int i = 0; i < 6; i++) sched_time_learn(&t, &x, truth(&x, 1));
    assert_true(fabs(sched_time_of(&t, &x) / truth(&x, 1) - 1) < 0.1);
    for (int i = 0; i < 6; i++) sched_time_learn(&t, &x, truth(&x, 8));
    assert_true(fabs(sched_time_of(&t, &x) / truth(&x, 8) - 1) < 0.1);
}

/* What no step tells anything about is not forgotten. */
static void test_long_decode_keeps_prefill(void **state)
{
    struct sched_time t;
    sched_time_init(&t);
    for (int i = 0; i < 300; i++) {
        struct sched_load x = some_load();
        sched_time_learn(&t, &x, truth(&x, 1));
    }
    double before = t.ms[SCHED_TIME_PREFILL];
    for (int i = 0; i < 5000; i++) {
        struct sched_load x = {.decode = 1 + (uint32_t)(rnd() * 16)};
        sched_time_learn(&t, &x, truth(&x, 1) * (0.95 + 0.1 * rnd()));
    }
    assert_true(fabs(t.ms[SCHED_TIME_PREFILL] / before - 1) < 0.2);
}

/* One stream on a machine that is not even, then something else: what steps that are all alike cannot tell apart is not
 * made up from their noise. */
static void test_long_decode_invents_nothing(void **state)
{
    struct sched_time t;
    sched_time_init(&t);
    for (int i = 0; i < 2000; i++) {
        struct sched_load x = {.decode = 1, .decode_kv = 0.05 + i * 1e-4};
        sched_time_learn(&t, &x, truth(&x, 1) * (0.7 + 0.6 * rnd()));
    }
    struct sched_load far = {.decode = 1, .decode_kv = 8}, many = {.decode = 16, .decode_kv = 4},
                      read = {.prefill = 64};
    assert_true(fabs(log(sched_time_of(&t, &far) / truth(&far, 1))) < log(2));
    assert_true(fabs(log(sched_time_of(&t, &many) / truth(&many, 1))) < log(1.5));
    assert_true(fabs(log(sched_time_of(&t, &read) / truth(&read, 1))) < log(1.5));
}

static void test_prefill_of_a_time(void **state)
{
    struct sched_time t;
    sched_time_init(&t);
    for (int i = 0; i < 5; i++) t.ms[i] = machine[i];
    for (uint32_t pos = 0; pos < 20000; pos += 777) {
        for (double ms = 0.5; ms < 5000; ms *= 1.7) {
            uint32_t n = sched_time_prefill(&t, pos, ms, 512);
            double of = n * 3.0 + 0.25 * (pos * (double)n + n * (double)n / 2) / 1000, m = n + 1.0;
            assert_true(n <= 512 && of <= ms * 1.0001);
            if (n < 512) assert_true(m * 3.0 + 0.25 * (pos * m + m * m / 2) / 1000 > ms * 0.9999);
        }
    }
    assert_int_equal(sched_time_prefill(&t, 0, 0, 512), 0);
    assert_int_equal(sched_time_prefill(&t, 0, -5, 512), 0);
}

/* Where both cost the same, both count the same; prefill counts at least one and at most what decoding does. */
static void test_prefill_units(void **state)
{
    struct sched_time t;
    sched_time_init(&t);
    t.ms[SCHED_TIME_DECODE] = 2;
    t.ms[SCHED_TIME_PREFILL] = 2;
    assert_int_equal(sched_time_prefill_units(&t, 4), 4);
    t.ms[SCHED_TIME_PREFILL] = 1;
    assert_int_equal(sched_time_prefill_units(&t, 4), 2);
    t.ms[SCHED_TIME_PREFILL] = 0.01;
    assert_int_equal(sched_time_prefill_units(&t, 4), 1);
    t.ms[SCHED_TIME_PREFILL] = 30;
    assert_int_equal(sched_time_prefill_units(&t, 4), 4);
}

/* --- the formulas of step-time.h once more --- */

enum { TERMS = SCHED_TIME_TERMS };

static double naive_size(const struct sched_time *t, int i)
{
    return t->ms[i] > t->usual[i] ? t->ms[i] : t->usual[i];
}

/* All coefficients times @by, each as uncertain as it is large. */
static void naive_rescale(struct sched_time *t, double by, bool first)
{
    for (int i = 0; i < TERMS; i++) {
        t->ms[i] *= by;
        t->usual[i] = first ? t->ms[i] : t->usual[i] * by;
        for (int k = 0; k < TERMS; k++) t->p[i][k] = 0;
        t->p[i][i] = naive_size(t, i) * naive_size(t, i);
    }
    t->row = 0;
}

static void naive_outlier(struct sched_time *t, double ratio)
{
    bool high = ratio > 2, low = ratio < 0.5, same = t->row && (t->off > 1) == high;
    double nearest = high ? fmin(ratio, t->off) : fmax(ratio, t->off);
    t->row = high || low ? 1 + (same ? t->row : 0) : 0;
    if (t->row) t->off = same ? nearest : ratio;
}

static void naive_learn(struct sched_time *t, const struct sched_load *x, double ms)
{
    const double f[TERMS] = {1, x->decode, x->prefill, x->decode_kv, x->prefill_kv, x->draft};
    double expected = sched_time_of(t, x), pf[TERMS] = {0}, all;
    bool first = t->samples++ == 0;
    if (!first) naive_outlier(t, ms / expected);
    if (first || t->row >= SCHED_TIME_BELIEVE) {
        naive_rescale(t, first ? ms / expected : t->off, first);
        expected = sched_time_of(t, x);
    }
    for (int i = 0; i < TERMS; i++) { /* drift */
        double one = naive_size(t, i), p = t->p[i][i] + one * one * SCHED_TIME_DRIFT * SCHED_TIME_DRIFT;
        double by = p > one * one ? one / sqrt(p) : 1;
        t->p[i][i] = p;
        for (int k = 0; k < TERMS; k++) t->p[i][k] *= by;
        for (int k = 0; k < TERMS; k++) t->p[k][i] *= by;
    }
    all = expected * expected * SCHED_TIME_NOISE * SCHED_TIME_NOISE;
    for (int i = 0; i < TERMS * TERMS; i++) pf[i / TERMS] += t->p[i / TERMS][i % TERMS] * f[i % TERMS];
    for (int i = 0; i < TERMS; i++) all += f[i] * pf[i];
    double off = fmin(fmax(ms, expected / 2), expected * 2) - expected, most = 2 * sqrt(all);
    off = off > most ? most : off < -most ? -most : off;
    for (int i = 0; i < TERMS; i++) t->ms[i] = fmax(t->ms[i] + pf[i] / all * off, t->usual[i] / 32);
    for (int i = 0; i < TERMS * TERMS; i++) t->p[i / TERMS][i % TERMS] -= pf[i / TERMS] * pf[i % TERMS] / all;
}

/* Steps of all kinds, with outliers of both directions, alone and several in a row. */
static void test_formulas(void **state)
{
    struct sched_time t, naive;
    double slow = 1, next = 1;
    unsigned believed = 0;
    for (int i = 0; i < 20000; i++) {
        if (i % 500 == 0) sched_time_init(&t), naive = t;
        if (rnd() < 0.02) slow = 0.05 + 20 * rnd() * rnd();
        next = rnd() < 0.1 ? 0.1 + 10 * rnd() * rnd() : 1;
        struct sched_load x = some_load();
        x.draft = rnd() < 0.3 ? (uint32_t)(rnd() * 8) : 0;
        double ms = truth(&x, slow) * next * (0.9 + 0.2 * rnd());
        uint32_t row = naive.row;
        naive_learn(&naive, &x, ms);
        sched_time_learn(&t, &x, ms);
        assert_int_equal(t.samples, naive.samples);
        assert_int_equal(t.row, naive.row);
        believed += row == SCHED_TIME_BELIEVE - 1 && naive.row == 0;
        for (int k = 0; k < TERMS; k++) {
            assert_true(fabs(t.ms[k] - naive.ms[k]) <= 1e-6 * naive.ms[k]);
            assert_true(fabs(t.usual[k] - naive.usual[k]) <= 1e-6 * naive.usual[k]);
            for (int j = 0; j < TERMS; j++)
                assert_true(fabs(t.p[k][j] - naive.p[k][j]) <= 1e-6 * naive_size(&naive, k) * naive_size(&naive, j));
        }
    }
    assert_true(believed > 100);
}

/* Half and twice the expected time are no outliers yet. */
static void test_no_outliers(void **state)
{
    static const double times[] = {16, 4};
    const struct sched_load none = {0};
    for (int i = 0; i < 2; i++) {
        struct sched_time t;
        sched_time_init(&t);
        t.samples = 2;
        t.row = 1;
        assert_true(sched_time_of(&t, &none) == 8);
        sched_time_learn(&t, &none, times[i]);
        assert_int_equal(t.row, 0);
    }
}

/* Times that are no measurement change nothing. */
static void test_ignored(void **state)
{
    const struct sched_load x = {.decode = 4, .decode_kv = 1}, none = {0};
    static const double wrong[] = {0, -1, NAN, INFINITY, -INFINITY};
    struct sched_time t, before;
    sched_time_init(&t);
    sched_time_learn(&t, &x, 30);
    before = t;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) sched_time_learn(&t, &x, wrong[i]);
    assert_memory_equal(&t, &before, sizeof(t));
    memset(t.ms, 0, sizeof(t.ms)); /* nothing is expected */
    before = t;
    sched_time_learn(&t, &none, 5);
    assert_memory_equal(&t, &before, sizeof(t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learns_a_machine),
        cmocka_unit_test(test_noise_and_outliers),
        cmocka_unit_test(test_one_bad_sample),
        cmocka_unit_test(test_believes_a_change),
        cmocka_unit_test(test_long_decode_keeps_prefill),
        cmocka_unit_test(test_long_decode_invents_nothing),
        cmocka_unit_test(test_prefill_of_a_time),
        cmocka_unit_test(test_prefill_units),
        cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_no_outliers),
        cmocka_unit_test(test_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

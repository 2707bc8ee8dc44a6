/* SPDX-License-Identifier: MIT */
/* The choice of experts, their order and their shares. Catches: a tie that depends on anything but the index, a choice
 * that reads past its list, shares of the wrong sum. */
#include "daemon/backend/cpu/route.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Without groups. */
static void plain(const float *scores, uint32_t n, uint32_t used, bool of_all, float scale, uint32_t *chosen,
                  float *share)
{
    const struct hparams_experts x = {
        .n = n, .used = used, .of_all = of_all, .scale = scale, .step = 1, .groups = 1, .groups_used = 1};
    route(&x, scores, NULL, chosen, share);
}

static void test_largest_first(void **state)
{
    const float scores[] = {0.5f, 3, -2, 3, 7, 3};
    uint32_t chosen[6];
    float share[6];
    plain(scores, 6, 3, false, 1, chosen, share);
    assert_true(chosen[0] == 4 && chosen[1] == 1 && chosen[2] == 3);
    plain(scores, 6, 6, false, 1, chosen, share);
    assert_true(chosen[0] == 4 && chosen[1] == 1 && chosen[2] == 3 && chosen[3] == 5 && chosen[4] == 0);
    assert_int_equal(chosen[5], 2);
    plain(scores, 6, 1, false, 1, chosen, share);
    assert_true(chosen[0] == 4 && share[0] == 1);
}

static void test_shares(void **state)
{
    const float scores[] = {1, 2, 0, -1};
    uint32_t chosen[2];
    float share[2];
    double all = exp(-1) + 1 + exp(-2) + exp(-3), two = 1 + exp(-1);
    plain(scores, 4, 2, false, 1, chosen, share);
    assert_true(fabs((double)share[0] - 1 / two) < 1e-6 && fabs((double)share[1] - exp(-1) / two) < 1e-6);
    plain(scores, 4, 2, true, 1, chosen, share);
    assert_true(fabs((double)share[0] - 1 / all) < 1e-6 && fabs((double)share[1] - exp(-1) / all) < 1e-6);
    plain(scores, 4, 2, true, 2.5f, chosen, share);
    assert_true(fabs((double)share[0] - 2.5 / all) < 1e-6 && fabs((double)share[1] - 2.5 * exp(-1) / all) < 1e-6);
}

/* Beside a plain selection, with scores that are often equal. */
static void test_against_a_plain_one(void **state)
{
    uint32_t seed = 1;
    for (int round = 0; round < 3000; round++) {
        float scores[64];
        uint32_t n = 1 + (seed >> 8) % 64, used = 1 + (seed >> 16) % n, chosen[65], taken[64] = {0};
        float share[65], sum = 0;
        for (uint32_t i = 0; i < n; i++) {
            seed = seed * 1664525 + 1013904223;
            scores[i] = (float)(seed >> 28) - 8;
            if (seed >> 24 == 77) scores[i] = NAN;
        }
        chosen[used] = 4242;
        plain(scores, n, used, round % 2, 1, chosen, share);
        assert_int_equal(chosen[used], 4242);
        for (uint32_t j = 0; j < used; j++) {
            uint32_t best = UINT32_MAX;
            float top = 0;
            for (uint32_t i = 0; i < n; i++) {
                float v = isnan(scores[i]) ? -INFINITY : scores[i];
                if (!taken[i] && (best == UINT32_MAX || v > top)) best = i, top = v;
            }
            taken[best] = 1;
            assert_int_equal(chosen[j], best);
            sum += share[j];
        }
        if (!isnan(sum)) assert_true(round % 2 && used < n ? sum < 1.0001f : fabsf(sum - 1) < 1e-4f);
    }
}

static bool near(float a, double b)
{
    return fabs((double)a - b) < 1e-6;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static void test_sigmoids(void **state)
{
    const float scores[] = {1, 2, 0, -1};
    struct hparams_experts x = {.n = 4, .used = 2, .sigmoid = true, .scale = 1, .groups = 1, .groups_used = 1};
    uint32_t chosen[2];
    float share[2];
    route(&x, scores, NULL, chosen, share);
    assert_true(chosen[0] == 1 && chosen[1] == 0);
    assert_true(near(share[0], sigmoid(2) / (sigmoid(2) + sigmoid(1))) && near(share[0] + share[1], 1));
    x.of_all = true, x.scale = 2.5f;
    route(&x, scores, NULL, chosen, share);
    assert_true(near(share[0], 2.5 * sigmoid(2)) && near(share[1], 2.5 * sigmoid(1)));
    x.of_all = false, x.scale = 1;
    route(&x, (const float[]){-90, -90, -90, -90}, NULL, chosen, share); /* sums that are almost nothing */
    assert_true(chosen[0] == 0 && chosen[1] == 1 && share[0] == share[1] && share[0] < 1e-30f);
}

/* The bias chooses, and is no part of the shares. */
static void test_biases_of_the_choice(void **state)
{
    const float scores[] = {1, 2, 0, -1}, bias[] = {0, -1, 0, 1};
    struct hparams_experts x = {.n = 4, .used = 2, .sigmoid = true, .scale = 1, .groups = 1, .groups_used = 1};
    const double all = exp(-1) + 1 + exp(-2) + exp(-3);
    uint32_t chosen[2];
    float share[2];
    route(&x, scores, bias, chosen, share);
    assert_true(chosen[0] == 3 && chosen[1] == 0);
    assert_true(near(share[0], sigmoid(-1) / (sigmoid(-1) + sigmoid(1))));
    x.sigmoid = false;
    route(&x, scores, bias, chosen, share);
    assert_true(chosen[0] == 3 && chosen[1] == 0 && near(share[0], exp(-2) / (exp(-2) + 1)));
    x.of_all = true;
    route(&x, scores, bias, chosen, share);
    assert_true(near(share[0], exp(-3) / all) && near(share[1], exp(-1) / all));
}

/* The best expert of all is in a group whose two best are worse than those of others. */
static void test_groups_of_experts(void **state)
{
    const float scores[] = {5, -9, -9, 1, 1, 0, 2, 1, -1, 0, 0, 0};
    struct hparams_experts x = {.n = 12, .used = 3, .sigmoid = true, .scale = 1, .groups = 4, .groups_used = 2};
    uint32_t chosen[3];
    float share[3];
    route(&x, scores, NULL, chosen, share);
    assert_true(chosen[0] == 6 && chosen[1] == 3 && chosen[2] == 4); /* of equal ones the first */
    x.groups_used = 4;
    route(&x, scores, NULL, chosen, share);
    assert_true(chosen[0] == 0 && chosen[1] == 6 && chosen[2] == 3);
    x.groups = 12, x.groups_used = 3; /* of one expert each */
    route(&x, scores, NULL, chosen, share);
    assert_true(chosen[0] == 0 && chosen[1] == 6 && chosen[2] == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_largest_first),        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_against_a_plain_one),  cmocka_unit_test(test_sigmoids),
        cmocka_unit_test(test_biases_of_the_choice), cmocka_unit_test(test_groups_of_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

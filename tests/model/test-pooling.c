/* SPDX-License-Identifier: MIT */
/* Pooling: which rows a kind reads, a mean that does not depend on how a text is cut, truncation and lengths. */
#include "daemon/model/pooling.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DIM  5
#define ROWS 9

static void test_names(void **state)
{
    for (uint32_t i = 0; i < POOLING_KINDS; i++) {
        enum pooling kind = POOLING_KINDS;
        assert_true(pooling_find(&kind, pooling_name(i)));
        assert_int_equal(kind, i);
    }
    enum pooling kind = POOLING_LAST;
    assert_null(pooling_name(POOLING_KINDS));
    assert_false(pooling_find(&kind, "median"));
    assert_int_equal(kind, POOLING_LAST);
    /* The numbers of files. */
    assert_string_equal(pooling_name(1), "mean");
    assert_string_equal(pooling_name(4), "rank");
}

static void test_reads(void **state)
{
    for (uint64_t i = 0; i < 3; i++) {
        assert_true(pooling_reads(POOLING_MEAN, false, i, 3) && pooling_reads(POOLING_NONE, true, i, 3));
        assert_int_equal(pooling_reads(POOLING_CLS, true, i, 3), i == 0);
        assert_int_equal(pooling_reads(POOLING_LAST, false, i, 3), i == 2);
        assert_int_equal(pooling_reads(POOLING_RANK, false, i, 3), i == 0);
        assert_int_equal(pooling_reads(POOLING_RANK, true, i, 3), i == 2);
    }
}

static void test_mean(void **state)
{
    float rows[ROWS][DIM], whole[DIM], cut[DIM];
    double sums[DIM] = {0};
    for (size_t i = 0; i < ROWS; i++)
        for (size_t d = 0; d < DIM; d++) rows[i][d] = (float)(random() % 2000 - 1000) / 7e3f + (i ? 0 : 1e8f);
    pooling_add(sums, rows[0], ROWS, DIM);
    pooling_mean(whole, sums, ROWS, DIM);
    for (size_t at = 0; at <= ROWS; at++) {
        memset(sums, 0, sizeof(sums));
        pooling_add(sums, rows[0], at, DIM);
        pooling_add(sums, rows[at], ROWS - at, DIM);
        pooling_mean(cut, sums, ROWS, DIM);
        assert_memory_equal(whole, cut, sizeof(cut));
    }
    long double exact = 0;
    for (size_t i = 0; i < ROWS; i++) exact += (long double)rows[i][3];
    assert_true(whole[3] == (float)(exact / ROWS));
    /* Small values behind a large one are not lost. */
    const float large[3] = {1, 0x1p-30f, 0x1p-30f};
    double sum = 0;
    pooling_add(&sum, large, 3, 1);
    assert_true(sum == 1 + 0x1p-29);
}

static void test_finish(void **state)
{
    float v[4] = {3, 4, 12, 84}, zero[2] = {0, -0.f};
    pooling_finish(v, 4, false);
    assert_true(v[0] == 3 && v[3] == 84);
    pooling_finish(v, 2, true); /* truncated first: 3 and 4, not what is left of a unit vector of 4 values */
    assert_true(v[0] == 0.6f && v[1] == 0.8f && v[2] == 12 && v[3] == 84);
    pooling_finish(zero, 2, true);
    assert_true(zero[0] == 0 && zero[1] == 0);
    float small[2] = {0x1p-140f, 0}; /* whose square is no f32 */
    pooling_finish(small, 2, true);
    assert_true(small[0] == 1);
}

static void test_cosine(void **state)
{
    const float a[3] = {1, 0, 0}, b[3] = {0, 2, 0}, c[3] = {-3, 0, 0}, d[3] = {1, 1, 0}, zero[3] = {0};
    assert_true(pooling_cosine(a, b, 3) == 0 && pooling_cosine(a, c, 3) == -1 && pooling_cosine(a, zero, 3) == 0);
    assert_true(fabs(pooling_cosine(a, d, 3) - sqrt(0.5)) < 1e-15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),  cmocka_unit_test(test_reads),  cmocka_unit_test(test_mean),
        cmocka_unit_test(test_finish), cmocka_unit_test(test_cosine),
    };
    return cmocka_run_group_tests_name("pooling", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "daemon/sample/rng.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Known answers of Philox-4x32-10: Random123's kat_vectors. */
static void test_known_answers(void **state)
{
    static const struct {
        uint32_t ctr[4], key[2], out[4];
    } kat[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof(kat) / sizeof(*kat); i++) {
        uint32_t out[4];
        rng_philox(out, kat[i].ctr, kat[i].key);
        assert_memory_equal(out, kat[i].out, sizeof(out));
    }
}

static void test_uniform_is_the_stated_words(void **state)
{
    uint64_t bits = (((uint64_t)0xe169c58d << 32) | 0x6627e8d5) >> 11;
    assert_true(rng_uniform(0, 0, 0) == (double)bits * 0x1p-53);
}

static void test_each_part_matters(void **state)
{
    double base = rng_uniform(1, 0, 0);
    assert_true(base == rng_uniform(1, 0, 0));
    assert_true(base != rng_uniform(2, 0, 0));
    assert_true(base != rng_uniform(1 + (1ull << 32), 0, 0));
    assert_true(base != rng_uniform(1, 1, 0));
    assert_true(base != rng_uniform(1, 0, 1));
    assert_true(base != rng_uniform(1, 0, 1ull << 32));
}

/* Chi-square over 64 bins: 63 degrees of freedom; 120 is beyond the 1e-5 quantile. The sequence is fixed. */
static void test_flat(void **state)
{
    int bins[64] = {0};
    const int n = 64000;
    for (int i = 0; i < n; i++) {
        double u = rng_uniform(42, 0, (uint64_t)i);
        assert_true(u >= 0 && u < 1);
        bins[(int)(u * 64)]++;
    }
    double chi = 0;
    for (int i = 0; i < 64; i++) chi += (bins[i] - n / 64.0) * (bins[i] - n / 64.0) / (n / 64.0);
    assert_true(chi < 120);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_uniform_is_the_stated_words),
        cmocka_unit_test(test_each_part_matters),
        cmocka_unit_test(test_flat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

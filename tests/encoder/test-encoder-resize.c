/* SPDX-License-Identifier: MIT */
/* Values computed by hand; e2e/test_encode.py compares whole images with Pillow's. */
#include "daemon/encoder/encoder-resize.h"
#include "tests/libcommon/check.h"
#include <string.h>

static const enum resize_filter filters[] = {RESIZE_BILINEAR, RESIZE_BICUBIC, RESIZE_LANCZOS};

static uint64_t sum_of(const struct resize_weights *w, uint32_t i)
{
    int64_t sum = 0;
    for (uint32_t j = w->at[i]; j < w->at[i + 1]; j++) sum += w->weight[j];
    return (uint64_t)sum;
}

/* The weights of each pixel are inside the image and sum up to 1, but for their rounding. */
static void test_weights(void **state)
{
    static const uint32_t edges[] = {1, 2, 3, 7, 64, 1000, 65536};
    for (int f = 0; f < 3; f++)
        for (size_t i = 0; i < 7; i++)
            for (size_t j = 0; j < 6; j++) {
                struct resize_weights w;
                assert_int_equal(resize_weights_init(&w, edges[i], edges[j], filters[f]), 0);
                for (uint32_t k = 0; k < w.to; k++) {
                    uint32_t n = w.at[k + 1] - w.at[k];
                    assert_in_range(n, 1, w.from);
                    assert_true(w.first[k] + n <= w.from);
                    assert_in_range(sum_of(&w, k), (1 << 22) - n, (1 << 22) + n);
                }
                resize_weights_fini(&w);
            }
}

static void test_same_size(void **state)
{
    uint8_t in[12], out[12];
    for (int i = 0; i < 12; i++) in[i] = (uint8_t)(i * 23);
    for (int f = 0; f < 3; f++) {
        struct resize_weights w;
        assert_int_equal(resize_weights_init(&w, 4, 4, filters[f]), 0);
        resize_row(&w, in, out);
        assert_memory_equal(in, out, sizeof(in));
        for (uint32_t y = 0; y < 4; y++) resize_column(&w, y, in, 3, out + y * 3);
        assert_memory_equal(in, out, sizeof(in));
        resize_weights_fini(&w);
    }
}

/* Two pixels to one: their mean. One to three: itself. */
static void test_bilinear(void **state)
{
    const uint8_t two[6] = {10, 100, 255, 20, 101, 255}, mean[3] = {15, 101, 255};
    uint8_t out[9];
    struct resize_weights w;
    assert_int_equal(resize_weights_init(&w, 2, 1, RESIZE_BILINEAR), 0);
    resize_row(&w, two, out);
    assert_memory_equal(out, mean, sizeof(mean));
    resize_column(&w, 0, two, 3, out);
    assert_memory_equal(out, mean, sizeof(mean));
    resize_weights_fini(&w);
    assert_int_equal(resize_weights_init(&w, 1, 3, RESIZE_BILINEAR), 0);
    resize_row(&w, two, out);
    for (int i = 0; i < 3; i++) assert_memory_equal(out + 3 * i, two, 3);
    resize_weights_fini(&w);
    /* Two to four: the outer ones themselves, the inner ones at a quarter of the way. */
    const uint8_t edge[6] = {0, 0, 0, 200, 200, 200}, four[4] = {0, 50, 150, 200};
    uint8_t wide[12];
    assert_int_equal(resize_weights_init(&w, 2, 4, RESIZE_BILINEAR), 0);
    resize_row(&w, edge, wide);
    for (int i = 0; i < 4; i++) assert_int_equal(wide[3 * i], four[i]);
    resize_weights_fini(&w);
}

/* A bicubic filter goes beyond the values of an edge, and the result is clamped. */
static void test_bicubic_is_clamped(void **state)
{
    uint8_t in[8], out[16];
    struct resize_weights w;
    for (int i = 0; i < 8; i++) in[i] = i < 4 ? 0 : 255;
    assert_int_equal(resize_weights_init(&w, 8, 16, RESIZE_BICUBIC), 0);
    for (uint32_t y = 0; y < 16; y++) resize_column(&w, y, in, 1, out + y);
    for (int i = 0; i < 6; i++) assert_int_equal(out[i], 0);
    for (int i = 10; i < 16; i++) assert_int_equal(out[i], 255);
    assert_int_equal(out[7] + out[8], 255);
    assert_true(out[7] > 0 && out[7] < 128);
    resize_weights_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_same_size),
        cmocka_unit_test(test_bilinear),
        cmocka_unit_test(test_bicubic_is_clamped),
    };
    return cmocka_run_group_tests_name("encoder-resize", tests, NULL, NULL);
}

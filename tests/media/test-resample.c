/* SPDX-License-Identifier: MIT */
#include "daemon/media/decode/resample.h"
#include "daemon/media/media.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static float tone(double i, double rate)
{
    return (float)(0.5 * sin(2 * 3.14159265358979 * 440 * i / rate));
}

/* Pushed in pieces of @piece samples. */
static void run(struct resample *s, unsigned rate, size_t n, size_t piece)
{
    float *in = malloc(n * sizeof(*in));
    assert_non_null(in);
    for (size_t i = 0; i < n; i++) in[i] = tone((double)i, rate);
    assert_int_equal(resample_init(s, rate), 0);
    for (size_t i = 0; i < n; i += piece) assert_int_equal(resample_push(s, in + i, piece < n - i ? piece : n - i), 0);
    assert_int_equal(resample_push(s, NULL, 0), 0);
    free(in);
}

static void test_the_right_rate(void **state)
{
    struct resample s;
    run(&s, MEDIA_RATE, 1000, 300);
    assert_int_equal(s.n, 1000);
    for (int i = 0; i < 1000; i++) assert_true(s.samples[i] == tone(i, MEDIA_RATE));
    resample_fini(&s);
}

static void test_rates(void **state)
{
    static const unsigned rates[] = {1000, 8000, 11025, 22050, 44100, 48000, 96000, 768000};
    for (size_t k = 0; k < sizeof(rates) / sizeof(*rates); k++) {
        struct resample whole, pieces;
        run(&whole, rates[k], rates[k], rates[k]);
        assert_in_range(whole.n, MEDIA_RATE - 1, MEDIA_RATE + 1);
        for (int i = 2000; rates[k] > 1000 && i < 14000; i++)
            assert_true(fabsf(whole.samples[i] - tone(i, MEDIA_RATE)) < 1e-4f);
        run(&pieces, rates[k], rates[k], 997);
        assert_int_equal(pieces.n, whole.n);
        assert_memory_equal(pieces.samples, whole.samples, whole.n * sizeof(float));
        resample_fini(&whole);
        resample_fini(&pieces);
    }
}

static void test_too_large(void **state)
{
    struct resample s;
    float in[4096];
    for (int i = 0; i < 4096; i++) in[i] = i & 1 ? 3.4e38f : -3.4e38f;
    assert_int_equal(resample_init(&s, 8000), 0);
    int r = resample_push(&s, in, 4096);
    if (r == 0) r = resample_push(&s, NULL, 0);
    assert_int_equal(r, -EBADMSG);
    assert_string_equal(error_text(r), "its samples are too large");
    resample_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_right_rate),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

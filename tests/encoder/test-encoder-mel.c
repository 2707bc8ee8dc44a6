/* SPDX-License-Identifier: MIT */
/* Also encoding-erf: spectra beside a naive transform in double, and GELU beside libm's erf. */
#include "daemon/encoder/encoder-mel.h"
#include "daemon/encoder/encoding-state.h"
#include "libcommon/error.h"
#include <math.h>
#include <string.h>

#include "tests/libcommon/check.h"

enum { N = 1000 };

static float random_sample(uint64_t *seed)
{
    return (float)((double)(next_random(seed) % 20001) / 10000 - 1);
}

/* out [rows] = m * in. */
static void multiply(const struct encoder_matrix *m, const float *in, float *out)
{
    const struct kern_acts acts = {.f = in, .n = 1, .k = m->k};
    kernels_get(NULL)->matmul[m->type](out, m->rows, m->panels, &acts, m->rows);
}

/* The power of a window at @first. */
static void power_of(const struct encoder_mel *m, const float *samples, uint64_t n, int64_t first, float out[MEL_EVEN])
{
    float even[MEL_EVEN], odd[MEL_ODD], im[MEL_ODD];
    encoder_mel_fold(m, samples, n, first, even, odd);
    multiply(&m->cosines, even, out);
    multiply(&m->sines, odd, im);
    encoder_mel_power(out, im);
}

/* Sample @i of the sound with its surroundings. */
static double padded(const float *samples, int64_t n, int64_t i)
{
    if (i < 0) i = -i;
    return i < n ? (double)samples[i] : 0;
}

static double naive_power(const float *samples, int64_t n, int64_t first, int frequency)
{
    double re = 0, im = 0;
    for (int i = 0; i < MEL_WINDOW; i++) {
        const double y = padded(samples, n, first + i) * (0.5 - 0.5 * cos(2 * M_PI * i / MEL_WINDOW));
        re += y * cos(2 * M_PI * frequency * i / MEL_WINDOW);
        im -= y * sin(2 * M_PI * frequency * i / MEL_WINDOW);
    }
    return re * re + im * im;
}

static void check_power(const struct encoder_mel *m, const float *samples, uint64_t n)
{
    static const int64_t firsts[] = {-200, -40, 120, 600, 760, 1160};
    for (size_t i = 0; i < sizeof(firsts) / sizeof(*firsts); i++) {
        float got[MEL_EVEN];
        double most = 1e-12;
        power_of(m, samples, n, firsts[i], got);
        for (int f = 0; f < MEL_EVEN; f++) most = fmax(most, naive_power(samples, (int64_t)n, firsts[i], f));
        for (int f = 0; f < MEL_EVEN; f++)
            assert_true(fabs(sqrt((double)got[f]) - sqrt(naive_power(samples, (int64_t)n, firsts[i], f))) <
                        1e-6 * sqrt(most));
    }
}

static void test_power(void **state)
{
    struct encoder_mel m;
    float samples[N];
    uint64_t seed = 3;
    assert_int_equal(encoder_mel_init(&m, 80), 0);
    for (int i = 0; i < N; i++) samples[i] = random_sample(&seed);
    check_power(&m, samples, N);
    check_power(&m, samples, 1);
    check_power(&m, samples, 250);
    for (int i = 0; i < N; i++) samples[i] = (float)sin(2 * M_PI * 40 * 25 * i / 16000);
    check_power(&m, samples, N);
    /* A tone of the frequency 25: half the sum of the window, squared, there; a quarter in amplitude beside it. */
    float power[MEL_EVEN];
    power_of(&m, samples, N, 300, power);
    assert_true(fabsf(power[25] - 10000) < 0.1f && fabsf(power[24] - 2500) < 0.1f && fabsf(power[26] - 2500) < 0.1f);
    assert_true(power[22] < 1e-4f && power[28] < 1e-4f);
    encoder_mel_fini(&m);
}

/* Triangles of area 1 that overlap by halves, from low to high frequencies. */
static void check_filters(uint32_t bins)
{
    struct encoder_mel m;
    double center = 0;
    assert_int_equal(encoder_mel_init(&m, bins), 0);
    assert_int_equal(m.filters.rows, bins);
    for (uint32_t i = 0; i < bins; i++) {
        float row[MEL_EVEN];
        double area = 0, moment = 0;
        kern_panel_row(KERN_F32, row, m.filters.panels + i / KERN_ROWS * m.filters.panel_bytes, i % KERN_ROWS,
                       MEL_EVEN);
        for (int f = 0; f < MEL_EVEN; f++) {
            assert_true(row[f] >= 0);
            area += 40.0 * (double)row[f];
            moment += 40.0 * f * (double)row[f];
        }
        if (i > bins / 2) assert_true(fabs(area - 1) < 0.2); /* wide triangles, well sampled */
        if (area > 0) assert_true(moment >= center);
        if (area > 0) center = moment / area - 40;
    }
    encoder_mel_fini(&m);
}

static void test_filters(void **state)
{
    struct encoder_mel m;
    float row[MEL_EVEN];
    check_filters(80);
    check_filters(128);
    /* The first filter of 80 begins at 0 Hz and ends at 2/81 of the scale: 45.245 mel, 200/3 Hz each. */
    assert_int_equal(encoder_mel_init(&m, 80), 0);
    kern_panel_row(KERN_F32, row, m.filters.panels, 0, MEL_EVEN);
    const double step = 45.245640471924965 / 81 * 200 / 3;
    assert_true(row[0] == 0 && fabs((double)row[1] - (2 * step - 40) / step / step) < 1e-8 && row[2] == 0);
    encoder_mel_fini(&m);
}

static void test_gelu(void **state)
{
    for (int i = -9000; i <= 9000; i++) {
        const double x = i / 1000.0;
        float y[3] = {(float)x, 7, (float)x};
        encoding_gelu_erf(y, 1);
        assert_true(fabs((double)y[0] - 0.5 * x * (1 + erf(x / sqrt(2)))) < 2e-6);
        assert_true(y[1] == 7);
        encoding_gelu_erf(y + 1, 2);
        assert_true(y[0] == y[2]);
    }
    float ends[] = {INFINITY, -1e30f, 0, NAN};
    encoding_gelu_erf(ends, 4);
    assert_true(isinf(ends[0]) && ends[1] == 0 && ends[2] == 0 && isnan(ends[3]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_power),
        cmocka_unit_test(test_filters),
        cmocka_unit_test(test_gelu),
    };
    return cmocka_run_group_tests_name("encoder-mel", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "daemon/encoder/encoder-mel.h"
#include "daemon/encoder/encoder-tensors.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdlib.h>
#include <xxhash.h>

#define RATE     16000.0
#define TURN     (2 * 3.14159265358979323846)
#define BREAK_HZ 1000.0 /* Slaney's scale: linear below, logarithmic above */
#define HZ_STEP  (200.0 / 3)

static double to_mel(double hz)
{
    return hz < BREAK_HZ ? hz / HZ_STEP : BREAK_HZ / HZ_STEP + log(hz / BREAK_HZ) / (log(6.4) / 27);
}

static double to_hz(double mel)
{
    const double at = BREAK_HZ / HZ_STEP;
    return mel < at ? mel * HZ_STEP : BREAK_HZ * exp((mel - at) * (log(6.4) / 27));
}

/* A triangle of height 2 / (right - left). */
static double triangle(double hz, double left, double center, double right)
{
    double w = 0;
    if (hz >= left && hz <= center)
        w = (hz - left) / (center - left);
    else if (hz > center && hz <= right)
        w = (right - hz) / (right - center);
    return w * (2 / (right - left));
}

static double filter_value(uint32_t bins, uint32_t bin, uint32_t frequency)
{
    const double top = to_mel(RATE / 2);
    double edge[3];
    for (uint32_t i = 0; i < 3; i++) edge[i] = to_hz(top * ((double)(bin + i) / (bins + 1)));
    return triangle(frequency * (RATE / MEL_WINDOW), edge[0], edge[1], edge[2]);
}

static double cosine(uint32_t frequency, uint32_t n)
{
    return cos(TURN * (frequency * n % MEL_WINDOW) / MEL_WINDOW);
}

static double sine(uint32_t frequency, uint32_t n)
{
    return sin(TURN * (frequency * n % MEL_WINDOW) / MEL_WINDOW);
}

enum table { COSINES, SINES, FILTERS };

static float table_value(enum table table, uint32_t rows, uint32_t row, uint32_t column)
{
    switch (table) {
    case COSINES:
        return (float)cosine(row, column);
    case SINES:
        return (float)sine(row + 1, column + 1);
    default:
        return (float)filter_value(rows, row, column);
    }
}

static int make(struct encoder_matrix *m, enum table table, uint32_t rows, uint32_t k)
{
    const uint32_t panels = (rows + KERN_ROWS - 1) / KERN_ROWS;
    float panel[KERN_ROWS][MEL_EVEN];
    *m = (struct encoder_matrix){.type = KERN_F32, .rows = rows, .k = k, .panel_bytes = kern_panel_bytes(KERN_F32, k)};
    m->panels = aligned_alloc(KERN_ALIGN, panels * m->panel_bytes);
    if (!m->panels) return error_say(-ENOMEM, "no memory for the tables of spectra");
    for (uint32_t p = 0; p < panels; p++) {
        uint32_t n = 0;
        for (uint32_t row = p * KERN_ROWS; n < KERN_ROWS && row < rows; n++, row++)
            for (uint32_t i = 0; i < k; i++) panel[n][i] = table_value(table, rows, row, i);
        kern_panel_pack(KERN_F32, m->panels + p * m->panel_bytes, panel, sizeof(*panel), n, k);
    }
    return 0;
}

int encoder_mel_init(struct encoder_mel *m, uint32_t bins)
{
    *m = (struct encoder_mel){0};
    for (uint32_t i = 0; i < MEL_WINDOW; i++) m->window[i] = (float)(0.5 * (1 - cosine(1, i)));
    int r = make(&m->cosines, COSINES, MEL_EVEN, MEL_EVEN);
    if (!r) r = make(&m->sines, SINES, MEL_ODD, MEL_ODD);
    if (!r) r = make(&m->filters, FILTERS, bins, MEL_EVEN);
    return r;
}

void encoder_mel_fini(struct encoder_mel *m)
{
    encoder_matrix_fini(&m->cosines);
    encoder_matrix_fini(&m->sines);
    encoder_matrix_fini(&m->filters);
}

uint64_t encoder_mel_identity(void)
{
    const double top = to_mel(RATE / 2);
    uint64_t hash = 0;
    for (uint32_t i = 0; i < MEL_WINDOW; i++) {
        const double probe[] = {cosine(1, i), sine(1, i), to_hz(top * i / MEL_WINDOW), log10((i + 1) * 1e-7)};
        hash = XXH3_64bits_withSeed(probe, sizeof(probe), hash);
    }
    return hash;
}

static float sample_at(const float *samples, uint64_t n, int64_t i)
{
    const uint64_t at = (uint64_t)(i < 0 ? -i : i);
    return at < n ? samples[at] : 0;
}

void encoder_mel_fold(const struct encoder_mel *m, const float *samples, uint64_t n, int64_t first,
                      float even[MEL_EVEN], float odd[MEL_ODD])
{
    float y[MEL_WINDOW];
    for (uint32_t i = 0; i < MEL_WINDOW; i++) y[i] = m->window[i] * sample_at(samples, n, first + i);
    even[0] = y[0];
    even[MEL_EVEN - 1] = y[MEL_WINDOW / 2];
    for (uint32_t i = 1; i <= MEL_ODD; i++) {
        even[i] = y[i] + y[MEL_WINDOW - i];
        odd[i - 1] = y[i] - y[MEL_WINDOW - i];
    }
}

void encoder_mel_power(float re[MEL_EVEN], const float im[MEL_ODD])
{
    for (uint32_t i = 0; i < MEL_EVEN; i++) re[i] *= re[i];
    for (uint32_t i = 0; i < MEL_ODD; i++) re[i + 1] += im[i] * im[i];
}

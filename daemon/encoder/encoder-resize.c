/* SPDX-License-Identifier: MIT */
#include "daemon/encoder/encoder-resize.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BITS 22 /* of a weight's fraction */
#define HALF (1 << (BITS - 1))

/* sin(pi * x) for 0 <= x < 3. Its own sum, since libm's bits may depend on the CPU. */
static double sin_pi(double x)
{
    const double whole = (double)(int)(x + 0.5), a = 3.14159265358979323846 * (x - whole), square = a * a;
    double term = a, sum = 0;
    for (int i = 2; i <= 24; i += 2) {
        sum += term;
        term *= -square / (i * (i + 1));
    }
    return (int)whole % 2 ? -sum : sum;
}

static double sinc(double x)
{
    return x == 0 ? 1 : sin_pi(x) / (3.14159265358979323846 * x);
}

static double filter_at(enum resize_filter filter, double x)
{
    const double a = -0.5;
    if (x < 0) x = -x;
    if (filter == RESIZE_BILINEAR) return x < 1 ? 1 - x : 0;
    if (filter == RESIZE_LANCZOS) return x < 3 ? sinc(x) * sinc(x / 3) : 0;
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
    return 0;
}

/* The span of the input that output pixel @i depends on. */
struct span {
    double center, step; /* step: of the filter's argument for one pixel */
    uint32_t first, n;
};

static struct span span_of(const struct resize_weights *w, uint32_t i, enum resize_filter filter)
{
    static const double supports[] = {[RESIZE_BILINEAR] = 1, [RESIZE_BICUBIC] = 2, [RESIZE_LANCZOS] = 3};
    const double scale = (double)w->from / w->to, wide = scale < 1 ? 1 : scale;
    const double support = supports[filter] * wide, center = (i + 0.5) * scale;
    const double low = center - support + 0.5, high = center + support + 0.5;
    uint32_t first = low > 0 ? (uint32_t)low : 0, end = high < w->from ? (uint32_t)high : w->from;
    return (struct span){center, 1 / wide, first, end - first};
}

static int32_t fixed(double weight)
{
    return (int32_t)(weight * (1 << BITS) + (weight < 0 ? -0.5 : 0.5));
}

static void fill(struct resize_weights *w, double *values, enum resize_filter filter)
{
    for (uint32_t i = 0; i < w->to; i++) {
        const struct span s = span_of(w, i, filter);
        double sum = 0;
        for (uint32_t j = 0; j < s.n; j++) {
            values[j] = filter_at(filter, (j + s.first - s.center + 0.5) * s.step);
            sum += values[j];
        }
        for (uint32_t j = 0; j < s.n; j++) w->weight[w->at[i] + j] = fixed(sum != 0 ? values[j] / sum : values[j]);
    }
}

int resize_weights_init(struct resize_weights *w, uint32_t from, uint32_t to, enum resize_filter filter)
{
    *w = (struct resize_weights){.from = from, .to = to};
    uint32_t most = 0;
    w->first = calloc(to, sizeof(*w->first));
    w->at = calloc((size_t)to + 1, sizeof(*w->at));
    if (w->first && w->at) {
        for (uint32_t i = 0; i < to; i++) {
            const struct span s = span_of(w, i, filter);
            w->first[i] = s.first;
            w->at[i + 1] = w->at[i] + s.n;
            if (s.n > most) most = s.n;
        }
        w->weight = calloc(w->at[to], sizeof(*w->weight));
    }
    double *values = calloc(most ? most : 1, sizeof(*values));
    if (!w->weight || !values) {
        free(values);
        resize_weights_fini(w);
        return error_say(-ENOMEM, "no memory to resize an image");
    }
    fill(w, values, filter);
    free(values);
    return 0;
}

void resize_weights_fini(struct resize_weights *w)
{
    free(w->first);
    free(w->at);
    free(w->weight);
    *w = (struct resize_weights){0};
}

static uint8_t clamp(int32_t sum)
{
    sum >>= BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

void resize_row(const struct resize_weights *w, const uint8_t *in, uint8_t *out)
{
    for (uint32_t i = 0; i < w->to; i++, out += 3) {
        const uint8_t *p = in + (size_t)w->first[i] * 3;
        const int32_t *weight = w->weight + w->at[i];
        int32_t sum[3] = {HALF, HALF, HALF};
        for (uint32_t j = 0, n = w->at[i + 1] - w->at[i]; j < n; j++)
            for (int c = 0; c < 3; c++) sum[c] += weight[j] * p[j * 3 + (uint32_t)c];
        for (int c = 0; c < 3; c++) out[c] = clamp(sum[c]);
    }
}

void resize_column(const struct resize_weights *w, uint32_t y, const uint8_t *in, uint32_t n, uint8_t *out)
{
    const int32_t *weight = w->weight + w->at[y];
    const uint32_t rows = w->at[y + 1] - w->at[y];
    in += (size_t)w->first[y] * n;
    for (uint32_t i = 0; i < n; i++) {
        int32_t sum = HALF;
        for (uint32_t j = 0; j < rows; j++) sum += weight[j] * in[(size_t)j * n + i];
        out[i] = clamp(sum);
    }
}

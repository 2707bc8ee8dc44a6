/* SPDX-License-Identifier: MIT */
/* From samples to normalized log-mel spectra. */
#include "daemon/encoder/encoding-sound.h"
#include <math.h>
#include <string.h>

#define RANGE 8.0f /* below the loudest bin, in powers of ten */

struct slice {
    struct encoding *x;
    uint64_t first; /* spectrum of the sound */
    float *out;     /* [n][bins] */
};

static void fold(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct slice *s = ctx;
    const struct encoding_sound *y = s->x->sound;
    for (uint32_t i = begin; i < end; i++)
        encoder_mel_fold(&s->x->e->sound.mel, y->samples, y->n, (int64_t)(s->first + i) * MEL_HOP - MEL_WINDOW / 2,
                         y->even + (size_t)i * MEL_EVEN, y->odd + (size_t)i * MEL_ODD);
}

static void square(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct encoding_sound *y = ((const struct slice *)ctx)->x->sound;
    for (uint32_t i = begin; i < end; i++) encoder_mel_power(y->re + (size_t)i * MEL_EVEN, y->im + (size_t)i * MEL_ODD);
}

/* Power of the bins of @n spectra, to @out [n][bins]. */
static void powers(struct slice *s, struct compute_pool *pool, uint32_t n, float *out)
{
    struct encoding *x = s->x;
    const struct encoder_mel *m = &x->e->sound.mel;
    struct encoding_sound *y = x->sound;
    encoding_run(pool, fold, s, n, 4);
    encoding_multiply(x, pool, &m->cosines, y->even, n, y->re, MEL_EVEN);
    encoding_multiply(x, pool, &m->sines, y->odd, n, y->im, MEL_ODD);
    encoding_run(pool, square, s, n, 8);
    encoding_multiply(x, pool, &m->filters, y->re, n, out, m->filters.rows);
}

void encoding_loudest(struct encoding *x, struct compute_pool *pool, uint32_t at, uint32_t n)
{
    struct slice s = {.x = x, .first = at};
    struct encoding_sound *y = x->sound;
    powers(&s, pool, n, y->power);
    for (size_t i = 0; i < (size_t)n * x->e->p.sound.bins; i++)
        if (y->power[i] > y->most) y->most = y->power[i];
    y->loudest = (float)log10((double)y->most);
}

static void normalize(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct slice *s = ctx;
    const struct encoding_sound *y = s->x->sound;
    const size_t bins = s->x->e->p.sound.bins;
    const float least = y->loudest - RANGE;
    for (size_t i = begin * bins; i < end * bins; i++) {
        float v = s->out[i] > SOUND_FLOOR ? (float)log10((double)s->out[i]) : y->floor;
        s->out[i] = ((v < least ? least : v) + 4) / 4;
    }
}

void encoding_spectra(struct encoding *x, struct compute_pool *pool, uint32_t at, uint32_t n)
{
    const struct encoding_sound *y = x->sound;
    const size_t bins = x->e->p.sound.bins;
    const uint64_t first = (uint64_t)y->chunk * SOUND_FRAMES + at;
    const uint32_t heard = first >= y->heard ? 0 : y->heard - first < n ? (uint32_t)(y->heard - first) : n;
    struct slice s = {.x = x, .first = first, .out = y->frames + (1 + (size_t)at) * bins};
    if (heard) powers(&s, pool, heard, s.out);
    memset(s.out + heard * bins, 0, (n - heard) * bins * sizeof(*s.out));
    encoding_run(pool, normalize, &s, n, 4);
}

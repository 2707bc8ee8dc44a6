/* SPDX-License-Identifier: MIT */
#include "daemon/media/decode/resample.h"
#include "daemon/media/media.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 1 << 16 /* samples */ };

int resample_init(struct resample *s, unsigned rate)
{
    *s = (struct resample){0};
    if (rate == MEDIA_RATE) return 0;
    soxr_error_t failed = NULL;
    const soxr_io_spec_t io = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
    const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
    const soxr_runtime_spec_t runtime = soxr_runtime_spec(1); /* thread */
    s->soxr = soxr_create(rate, MEDIA_RATE, 1, &failed, &io, &quality, &runtime);
    return s->soxr && !failed ? 0 : error_say(-ENOMEM, "no memory to convert %u samples a second", rate);
}

/* Room for @more samples. */
static int reserve(struct resample *s, size_t more)
{
    if (s->n > MEDIA_SAMPLES_MAX)
        return error_say(-EFBIG, "the sound is over the limit of %u min", MEDIA_SECONDS_MAX / 60);
    if (s->cap - s->n >= more) return 0;
    size_t cap = s->cap * 2 > s->n + more ? s->cap * 2 : s->n + more;
    float *samples = realloc(s->samples, cap * sizeof(*samples));
    if (!samples) return error_say(-ENOMEM, "no memory for %zu samples", cap);
    s->samples = samples;
    s->cap = cap;
    return 0;
}

static int take(struct resample *s, size_t n)
{
    for (size_t i = s->n; i < s->n + n; i++)
        if (!isfinite(s->samples[i])) return error_say(-EBADMSG, "its samples are too large");
    s->n += n;
    return 0;
}

int resample_push(struct resample *s, const float *in, size_t n)
{
    if (!s->soxr) {
        int r = n ? reserve(s, n) : 0;
        if (r < 0 || !n) return r;
        memcpy(s->samples + s->n, in, n * sizeof(*in));
        return take(s, n);
    }
    for (size_t left = n;;) {
        size_t used = 0, made = 0;
        int r = reserve(s, AT_ONCE);
        if (r < 0) return r;
        soxr_error_t failed = soxr_process(s->soxr, in, left, &used, s->samples + s->n, AT_ONCE, &made);
        if (failed) return error_say(-ENOMEM, "the sampling rate cannot be converted: %s", failed);
        r = take(s, made);
        if (r < 0) return r;
        if (in) in += used;
        left -= in ? used : 0;
        if (in ? left == 0 : made == 0) return 0;
    }
}

void resample_fini(struct resample *s)
{
    if (s->soxr) soxr_delete(s->soxr);
    free(s->samples);
    *s = (struct resample){0};
}

/* SPDX-License-Identifier: MIT */
#pragma once
/* Samples of any rate become samples of MEDIA_RATE. */
#include <soxr.h>
#include <stddef.h>

struct resample {
    soxr_t soxr;    /* NULL: the rate is right, and samples stay as they are */
    float *samples; /* [n], owned */
    size_t n, cap;
};

/* Begin a sound of @rate samples a second. 0 or -ENOMEM; sets the error message. Call resample_fini in any case. */
int resample_init(struct resample *s, unsigned rate);
/* Append @in [@n]; NULL: the sound ends. 0; -ENOMEM; -EFBIG: over the limit; -EBADMSG: a sample is too large; sets the
 * error message. */
int resample_push(struct resample *s, const float *in, size_t n);
void resample_fini(struct resample *s);

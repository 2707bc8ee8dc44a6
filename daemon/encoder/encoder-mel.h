/* SPDX-License-Identifier: MIT */
#pragma once
/* Spectra of sounds: the tables that turn a window of samples into the power of its mel bins. */
#include "daemon/encoder/encoder-weights.h"

enum {
    MEL_WINDOW = 400, /* samples */
    MEL_HOP = 160,    /* from one window to the next */
    MEL_EVEN = MEL_WINDOW / 2 + 1,
    MEL_ODD = MEL_WINDOW / 2 - 1,
    MEL_BINS_MAX = 512,
};

/* The discrete Fourier transform of real values y[400] is two products of sums and differences: as cosines are even and
 * sines odd, only y[n] + y[400 - n] and y[n] - y[400 - n] count. */
struct encoder_mel {
    float window[MEL_WINDOW];      /* Hann's */
    struct encoder_matrix cosines; /* [MEL_EVEN frequencies][MEL_EVEN sums] */
    struct encoder_matrix sines; /* [MEL_ODD frequencies, from the second one][MEL_ODD differences, from the second] */
    struct encoder_matrix filters; /* [bins][MEL_EVEN frequencies] of the power */
};

/* 0: the caller calls encoder_mel_fini, which it may also do otherwise; -ENOMEM, sets the error message. */
int encoder_mel_init(struct encoder_mel *m, uint32_t bins);
void encoder_mel_fini(struct encoder_mel *m);
/* A hash of libm's results that spectra depend on, which differ by version and CPU. */
uint64_t encoder_mel_identity(void);

/* The sums and differences of a window of @samples that begins at @first, which may be negative: mirrored samples stand
 * before the sound, and zeros behind it. */
void encoder_mel_fold(const struct encoder_mel *m, const float *samples, uint64_t n, int64_t first,
                      float even[MEL_EVEN], float odd[MEL_ODD]);

/* @re becomes the power; @im has no values for the first and the last frequency. */
void encoder_mel_power(float re[MEL_EVEN], const float im[MEL_ODD]);

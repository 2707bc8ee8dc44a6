/* SPDX-License-Identifier: MIT */
#pragma once
/* A sound on its way through an encoder. Its loudest mel bin must be known before the first chunk: spectra are computed
 * once for that, and once more chunk by chunk. */
#include "daemon/encoder/encoding-state.h"

#define SOUND_FLOOR 5.960464477539063e-08f /* the least power of a bin: 2^-24 */

struct encoding_sound {
    const float *samples; /* the caller's, [n] */
    uint64_t n;
    uint32_t heard; /* spectra that have a sample */
    uint32_t chunks, chunk;
    float floor;      /* the least log of power */
    float most;       /* power of the loudest bin */
    float loudest;    /* its log */
    float *frames;    /* [SOUND_FRAMES + 2][bins] of the chunk; the first and the last row are 0 */
    float *convolved; /* [SOUND_FRAMES + 2][dim]; the same */
    /* Memory of a slice. */
    float *even, *odd; /* [slice][MEL_EVEN], [slice][MEL_ODD]: sums and differences */
    float *re, *im;    /* the same sizes */
    float *power;      /* [slice][bins] */
    float *taps;       /* [slice][SOUND_TAPS * the wider of bins and dim] */
    float *joined;     /* [slice][rows of the projector's first product] */
};

extern void (*const encoding_sound_stages[STAGE_DONE])(struct encoding *, struct compute_pool *, uint32_t, uint32_t);

/* Rows of the stage. */
uint32_t encoding_sound_rows(const struct encoding *x);

/* Take the next chunk; false: there is none. */
bool encoding_sound_next(struct encoding *x);

void encoding_sound_fini(struct encoding *x);

/* Spectra [at, at + n) of the chunk that is computed, or of the sound. */
void encoding_spectra(struct encoding *x, struct compute_pool *pool, uint32_t at, uint32_t n);
void encoding_loudest(struct encoding *x, struct compute_pool *pool, uint32_t at, uint32_t n);

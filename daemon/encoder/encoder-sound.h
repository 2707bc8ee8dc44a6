/* SPDX-License-Identifier: MIT */
#pragma once
/* The parameters and weights of an encoder of sounds: Whisper's encoder with a projector. */
#include "daemon/encoder/encoder-mel.h"
#include "daemon/encoder/encoder.h"

enum {
    SOUND_FRAMES = 3000, /* spectra of a chunk, 30 s */
    SOUND_ROWS = 1500,   /* of the transformer, for a chunk */
    SOUND_TAPS = 3,      /* rows that a convolution reads */
};

struct encoder_sound {
    struct encoder_matrix first, second; /* convolutions: [rows][SOUND_TAPS][values of a row] */
    struct encoder_norm middle;          /* Ultravox: before the last product */
    struct encoder_mel mel;
};

/* Which of a file's encoders is meant: *out becomes MEDIA_IMAGE or MEDIA_SOUND. @takes: as in struct encoder_config. 0;
 * -EINVAL and the error message: the file has no such encoder. */
int encoder_choose(const struct gguf *g, enum media_kind takes, enum media_kind *out);

/* Fill *out, as encoder_hparams_read does for images; @pooled: as in struct encoder_config. */
int encoder_sound_hparams(struct encoder_hparams *out, const struct gguf *g, bool pooled);

/* Read all tensors; sets p->dim_out. 0: the caller calls encoder_sound_fini and encoder_weights_fini, which it may also
 * do otherwise; errors as those of encoder_weights_read. */
int encoder_sound_read(struct encoder_sound *s, struct encoder_weights *w, struct encoder_hparams *p,
                       const struct gguf *g);
void encoder_sound_fini(struct encoder_sound *s);

/* "ultravox". */
const char *encoder_sound_name(enum encoder_sound_kind kind);

/* Embeddings of a chunk. */
static inline uint32_t encoder_chunk_items(const struct encoder_hparams *p)
{
    return SOUND_ROWS / p->sound.pool / p->sound.stack;
}

/* SPDX-License-Identifier: MIT */
#pragma once
/* Small encoders of random weights for tests. */
#include "libcommon/buf.h"
#include <stddef.h>
#include <stdint.h>

struct encoder_tensor {
    const char *name;
    uint64_t dims[4]; /* 0: the values of an embedding */
};

/* An encoder of images: one tile of 8x8 pixels, one block. */
struct encoder_file {
    const char *projector;
    const struct encoder_tensor *tensors; /* [n] */
    size_t n;
    const char *key; /* of the projector */
    uint32_t value;
    const char *last; /* tensor */
};

enum { ENCODER_FILE_EDGE = 8 /* pixels of a tile */, ENCODER_FILE_ITEMS = 4 /* embeddings of an image */ };

/* The second one is Qwen2.5-VL's: turned heads, windows, RMS norms, a gated FFN, two kernels of the patches. */
extern const struct encoder_file encoder_file_gemma3, encoder_file_qwen;

/* Append a file of random weights for embeddings of @dim values to @out. */
void encoder_file_bytes(struct buf *out, const struct encoder_file *f, uint32_t dim, uint64_t seed);

/* The end of a file, behind its keys: the descriptions of the tensors @t [n], and random weights. */
void encoder_file_tensors(struct buf *out, const struct encoder_tensor *t, size_t n, uint32_t dim, uint64_t seed);

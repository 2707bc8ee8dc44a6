/* SPDX-License-Identifier: MIT */
#pragma once
/* A small image encoder for tests: one tile of 8x8 pixels, one block, Gemma 3's projector. */
#include "libcommon/buf.h"
#include <stdint.h>

enum { ENCODER_FILE_ITEMS = 4 /* embeddings of an image */ };

/* Append a file of random weights for embeddings of @dim values to @out. */
void encoder_file_bytes(struct buf *out, uint32_t dim, uint64_t seed);

/* SPDX-License-Identifier: MIT */
#pragma once
/* The inside of an encoder. */
#include "daemon/encoder/encoder-weights.h"
#include "daemon/encoder/encoder.h"

struct encoder {
    struct encoder_hparams p;
    struct encoder_weights w;
    const struct kernels *kern;
    uint8_t identity[ENCODER_IDENTITY];
};

/* The pixels of @edge when the longer one, which may be @other, is scaled to e->p.longest: rounded down, then up to an
 * even number. */
uint32_t encoder_long_edge(const struct encoder *e, uint32_t edge, uint32_t other);

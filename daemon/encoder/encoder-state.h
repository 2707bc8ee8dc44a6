/* SPDX-License-Identifier: MIT */
#pragma once
/* The inside of an encoder. */
#include "daemon/encoder/encoder-sound.h"

struct encoder {
    struct encoder_hparams p;
    struct encoder_weights w;
    struct encoder_sound sound;
    const struct kernels *kern;
    uint64_t bytes; /* of all tensors */
    uint8_t identity[ENCODER_IDENTITY];
};

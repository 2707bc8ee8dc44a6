/* SPDX-License-Identifier: MIT */
#pragma once
/* What the kinds of encoders are, and how they prepare images. */
#include "daemon/encoder/encoder-hparams.h"
#include "daemon/model/keys.h"
#include <stdbool.h>

struct encoder_kind_row {
    const char *name, *models;
    enum encoder_cut cut;
    enum resize_filter filter;
    uint8_t border[3];
    const char *pool_key;
    uint32_t pool;        /* without the key; 0: it is required */
    uint32_t least, most; /* embeddings of an image; 0: its size does not decide */
    enum encoder_rope rope;
    bool rms;
};

const struct encoder_kind_row *encoder_kind_row(enum encoder_kind kind);

/* Set what the kind of this name decides. 0; -EINVAL: there is none, sets the error message. */
int encoder_kind_find(struct encoder_hparams *p, const struct gguf *g, struct gguf_str name);

/* Read the sizes of the blocks and of an embedding, which encoders of images and of sounds have. 0; -EINVAL and the
 * error message. */
int encoder_blocks_read(struct encoder_hparams *p, const struct keys *k);

/* Set p->pool and p->prepare from the keys; p->kind, p->image and p->patch are known. 0; -EINVAL and the error message.
 */
int encoder_preparation_read(struct encoder_hparams *p, const struct keys *k);

bool encoder_equals(struct gguf_str s, const char *word);

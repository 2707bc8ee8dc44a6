/* SPDX-License-Identifier: MIT */
#pragma once
/* The weights of an image encoder, checked and packed. */
#include "daemon/encoder/encoder-hparams.h"
#include "kernels/kernels.h"
#include <stdbool.h>

/* rows outputs of k inputs each: y = W x + b. */
struct encoder_matrix {
    enum kern_type type;
    uint32_t rows, k;
    size_t panel_bytes;
    uint8_t *panels; /* of KERN_ROWS rows; NULL: there is no such matrix */
    float *bias;     /* [rows]; NULL: none */
};

struct encoder_norm {
    float *w, *b; /* [n]; w NULL: there is no such norm; b NULL: no bias */
    uint32_t n;   /* values of a row of it */
};

struct encoder_block {
    struct encoder_norm ln1, ln2;
    struct encoder_norm q_norm, k_norm; /* of whole rows or of heads */
    struct encoder_matrix q, k, v, out, up, down;
    struct encoder_matrix gate; /* beside up, optional */
    float *scale1, *scale2;     /* [dim] factors of the outputs of attention and FFN; NULL: none */
};

struct encoder_weights {
    struct encoder_matrix patch; /* of 3 * patch * patch values: [3][patch][patch] */
    float *class;                /* [dim] a row besides those of the patches (CLIP's); NULL: none */
    float *positions;            /* [rows][dim] added to the rows; NULL: none */
    uint32_t side;               /* CUT_LFM2: rows of an edge of the square that the positions are for */
    struct encoder_norm pre, post;
    struct encoder_block *blocks; /* [n_blocks] */
    uint32_t n_blocks;            /* those that are computed */
    struct encoder_norm before;   /* RMS norm of the rows before merge */
    struct encoder_matrix merge;  /* of a square of rows, [dim][pool][pool] values each; Pixtral's, optional */
    struct encoder_norm gathered; /* of the projector's input: Gemma 3's RMS norm, InternVL's and LFM2's layer norm */
    struct encoder_matrix project, then; /* then: after GELU; Gemma 3 and Idefics3 have neither */
    float *line_break;                   /* [dim_out] an embedding between the lines of the image; NULL: none */
};

/* Rows of a tile that go through the blocks. */
static inline uint32_t encoder_rows(const struct encoder_weights *w, uint32_t patches)
{
    return patches + (w->class ? 1 : 0);
}

/* Read all tensors; sets p->dim_out to the rows of the last product; for Gemma 3 it must
 * be that already, if not 0. 0: the caller calls encoder_weights_fini, which
 * it may also do otherwise; -EINVAL: a tensor is missing, has another shape, a type without kernels, or no place in
 * this encoder; -ENOMEM. Sets the error message. */
int encoder_weights_read(struct encoder_weights *w, struct encoder_hparams *p, const struct gguf *g);
void encoder_weights_fini(struct encoder_weights *w);

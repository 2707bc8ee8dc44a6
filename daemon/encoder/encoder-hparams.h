/* SPDX-License-Identifier: MIT */
#pragma once
/* The parameters of an image encoder, from the keys of its file. */
#include "daemon/encoder/encoder-resize.h"
#include "daemon/model/gguf.h"

enum encoder_kind {
    ENCODER_GEMMA3,   /* average pooling, RMS norm, one product */
    ENCODER_MLP,      /* LLaVA: two products with GELU between */
    ENCODER_IDEFICS3, /* the rows of a square of patches side by side, one product */
    ENCODER_INTERNVL, /* the same, layer norm, two products */
    ENCODER_PIXTRAL,  /* a product of such a square, if the file has one, then two products, and a row at line ends */
    ENCODER_LFM2,     /* as InternVL, the norm is optional */
    ENCODER_QWEN2VL,  /* the rows of a square of 2 x 2 patches side by side, two products */
    ENCODER_QWEN25VL, /* the same */
};

enum encoder_act { ENCODER_GELU, ENCODER_GELU_QUICK, ENCODER_SILU, ENCODER_GELU_ERF };

/* Encoders of sounds (encoder-sound.h). */
enum encoder_sound_kind {
    SOUND_NONE,
    SOUND_ULTRAVOX, /* rows side by side, RMS norm, SwiGLU, RMS norm, one product */
    SOUND_QWEN2A,   /* the mean of two rows, one product */
    SOUND_VOXTRAL,  /* rows side by side, two products with GELU between */
};

/* How an image is prepared (encoder-plan.h). */
enum encoder_cut {
    CUT_SQUARE, /* one tile, the image in its middle */
    CUT_EDGE,   /* tiles, after the longer edge is scaled */
    CUT_GRIDS,  /* tiles in the best one of some grids */
    CUT_WHOLE,  /* one tile, as large as the image within limits */
    CUT_LFM2,   /* this, or tiles of a fixed size for a large image */
};

/* Rotations of Q and K by the row and the column of the patch. */
enum encoder_rope {
    ROPE_NONE,
    ROPE_PAIRS,  /* of neighbours; each frequency is one of the row or of the column */
    ROPE_HALVES, /* of values half a head apart; row and column have the same frequencies */
};

enum {
    ENCODER_GRIDS = 256,
    ENCODER_PATCHES = 16384, /* of a tile */
    ENCODER_HEAD = 256       /* values of a head */
};

/* Tiles of an image. */
struct encoder_grid {
    uint16_t columns, rows;
};

struct encoder_preparation {
    enum encoder_cut cut;
    enum resize_filter filter;
    uint8_t border[3];
    uint32_t tile;        /* pixels of an edge of a tile */
    uint32_t longest;     /* CUT_EDGE: pixels of an image's longer edge before it is cut into tiles */
    uint32_t least, most; /* CUT_WHOLE, CUT_LFM2: pixels */
    uint32_t n_grids;     /* CUT_GRIDS */
    struct encoder_grid grids[ENCODER_GRIDS];
};

struct encoder_sound_hparams {
    enum encoder_sound_kind kind; /* SOUND_NONE: an encoder of images */
    uint32_t bins;                /* of the mel scale */
    uint32_t pool;                /* rows of which the mean is taken */
    uint32_t stack;               /* of these side by side for one embedding */
};

struct encoder_hparams {
    enum encoder_kind kind;
    enum encoder_act act;    /* of the FFN */
    uint32_t image, patch;   /* pixels of an edge */
    uint32_t dim, ffn;       /* values of a row */
    uint32_t heads, dim_out; /* dim_out: of an embedding */
    uint32_t layers;         /* blocks in the file */
    uint32_t blocks;         /* of these computed, the first ones */
    uint32_t pool;           /* patches of the edge of a square that becomes one embedding */
    uint32_t rms;            /* 1: the norms of the blocks are RMS norms; 0: layer norms */
    float eps;
    float mean[3], std[3];
    enum encoder_rope rope;
    uint32_t window;     /* embeddings of the edge of a window that attention sees; 0: it always sees all rows */
    uint32_t full_every; /* but for each n-th block */
    struct encoder_preparation prepare;
    bool class_last; /* of struct encoder_config */
    struct encoder_sound_hparams sound;
};

/* 0; -EINVAL and the error message: the file is no encoder. */
int encoder_check_architecture(const struct gguf *g);

/* Fill *out, all of it, its padding too, but for class_last. 0; -EINVAL and the error message: not an image encoder, or
 * one that hob does not support, or a value that cannot be. */
int encoder_hparams_read(struct encoder_hparams *out, const struct gguf *g);

/* "gemma3". */
const char *encoder_kind_name(enum encoder_kind kind);

/* Patches of an edge of a square tile. */
static inline uint32_t encoder_side(const struct encoder_hparams *p)
{
    return p->image / p->patch;
}

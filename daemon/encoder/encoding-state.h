/* SPDX-License-Identifier: MIT */
#pragma once
/* An image or a sound on its way through an encoder, and what its stages share. A slice is up to x->slice rows. */
#include "daemon/backend/cpu/compute-pool.h"
#include "daemon/encoder/encoder-plan.h"
#include "daemon/encoder/encoder-state.h"

enum stage {
    STAGE_COLUMNS, /* resize */
    STAGE_ROWS,
    STAGE_PATCHES, /* the rows that enter the first block */
    STAGE_KV,      /* of a block: Q, K and V */
    STAGE_BLOCK,   /* of a block: attention, FFN */
    STAGE_PROJECT,
    STAGE_LOUDEST, /* of a sound (encoding-sound.h): its loudest mel bin */
    STAGE_SPECTRA,
    STAGE_CONVOLVE,
    STAGE_DONE
};

/* An image, resized from another view or from the caller's. */
struct encoding_view {
    struct resize_weights across, down; /* their "to" are the size without the border */
    const uint8_t *from;                /* [down.from][across.from][3] */
    uint32_t edge_x, edge_y;            /* with the border */
    uint8_t *image;                     /* [edge_y][edge_x][3] */
};

enum { VIEWS = 3 };

/* A part of a view that goes through the transformer alone. */
struct encoding_tile {
    const struct encoding_view *view;
    uint32_t left, top;     /* pixels */
    uint32_t columns, rows; /* patches */
    uint32_t items, first;  /* embeddings, and the first of them in the result */
};

/* Where Q and K are turned to: [edge][2][quarter of a head] cosines and sines of a row or column of patches. */
struct encoding_turns {
    float *rows, *columns; /* NULL: they are not turned */
};

/* How the positions of the file are spread over a tile, as an image is resized (CUT_LFM2). */
struct encoding_spread {
    struct resize_weights across, down;
};

/* The caller's image. */
struct encoding_source {
    const uint8_t *rgb; /* [height][width][3] */
    uint32_t width, height;
};

/* Memory of a slice. */
struct encoding_scratch {
    float *in, *mid, *out; /* [slice][dim] or the projector's input, [slice][widest], [slice][3][dim] */
    float *ones;           /* [widest] of 1.0 */
    float *up;             /* [slice][ffn] */
    int8_t *q;             /* quantized activations, as in kern_acts */
    float *d;
    int16_t *s;
    float *m, *l, *o; /* of attention: [heads][segments][slice], o: [..][head dim] */
};

struct encoding {
    const struct encoder *e;
    struct encoding_source source; /* of an image */
    struct encoder_plan plan;

    struct encoder_cutting cutting;

    enum stage stage;
    uint32_t block, at; /* at: rows done in this stage */
    uint32_t slice;     /* rows */
    uint32_t segments;  /* of attention, for the tile with most rows */

    struct encoding_view views[VIEWS]; /* the last one has the whole image as a tile, the one before it the others */
    uint32_t n_views, view;            /* view: that is made */
    uint8_t *narrow;                   /* [rows of the view before][columns of this one][3] */

    uint32_t tile; /* number of the one that is encoded */
    struct encoding_tile now;
    uint32_t rows; /* of the transformer, for this tile */

    struct encoding_turns turns;
    struct encoding_spread spread[2]; /* [1]: of the whole image */
    /* Windows: the rows of a window follow each other. NULL: the rows are in the order of the patches. */
    uint32_t *patch_at, *row_of;         /* [rows] the patch of a row, and the row of a patch */
    uint32_t *window_begin, *window_end; /* [rows] the rows that a row sees */

    struct encoding_sound *sound; /* NULL: an image */

    float *hidden; /* [rows][dim] */
    float *query;  /* [rows][dim] */
    uint8_t *kv;   /* [blocks of 32 rows][heads] of K, then V */
    size_t kv_half;
    float *result; /* [items][dim_out] */

    struct encoding_scratch scratch;
};

/* Run @fn over [0, n). */
void encoding_run(struct compute_pool *pool, compute_fn fn, void *ctx, uint32_t n, uint32_t least);

/* out [n][ld] = m * in [n][m->k] + bias; n <= x->slice. */
void encoding_multiply(struct encoding *x, struct compute_pool *pool, const struct encoder_matrix *m, const float *in,
                       uint32_t n, float *out, size_t ld);

/* out = norm(in), a row of norm->n values; @rms: an RMS norm, else layer norm; out may be in. */
void encoding_norm(const struct kernels *kern, float *out, const float *in, const struct encoder_norm *norm, bool rms,
                   float eps);

/* values[n] = act(values) * factors; of ENCODER_GELU_ERF without factors. */
void encoding_activate(const struct kernels *kern, enum encoder_act act, float *values, const float *factors,
                       uint32_t n);

void encoding_gelu_erf(float *values, uint32_t n);

/* The memory of an encoding, but for that of views, places and sounds. 0; -ENOMEM, sets the error message. */
int encoding_allocate(struct encoding *x);

/* The views of an image. 0; -ENOMEM, sets the error message; memory of views is freed by encoding_views_fini. */
int encoding_views_init(struct encoding *x);
void encoding_views_fini(struct encoding *x);

/* Resize a part of x->view: rows [at, at + n) of it (STAGE_ROWS), or of the view before it (STAGE_COLUMNS). */
void encoding_resize(struct encoding *x, struct compute_pool *pool, uint32_t at, uint32_t n);

/* The places of the patches: turns, spread positions and windows. 0; -ENOMEM, sets the error message; memory is freed
 * by encoding_places_fini. */
int encoding_places_init(struct encoding *x);
/* A hash of what the turns of an encoder with @p depend on: pow, cos and sin are libm's, whose last bit differs by
 * version and CPU. */
uint64_t encoding_turns_identity(const struct encoder_hparams *p);
void encoding_places_fini(struct encoding *x);

/* Turn one row of Q or K. */
void encoding_turn(const struct encoding *x, uint32_t patch, float *row);

/* Add the position of @patch to @row; @sum [dim] is memory for it. */
void encoding_add_position(const struct encoding *x, uint32_t patch, float *row, float *sum);

/* Tiles of the image; set x->now to one of them. */
uint32_t encoding_tiles(const struct encoding *x);
void encoding_take_tile(struct encoding *x, uint32_t tile);

/* The slices: rows [at, at + n) of their stage. */
void encoding_patches(struct encoding *x, struct compute_pool *pool, uint32_t at, uint32_t n);
void encoding_kv(struct encoding *x, struct compute_pool *pool, uint32_t at, uint32_t n);
void encoding_block(struct encoding *x, struct compute_pool *pool, uint32_t at, uint32_t n);
void encoding_project(struct encoding *x, struct compute_pool *pool, uint32_t at, uint32_t n);

/* After the projector: put the embedding of a line break between the lines of the tile, if there is one. */
void encoding_break_lines(struct encoding *x);

/* The row of patch 0 in the transformer, and that of the class; UINT32_MAX: none. */
static inline uint32_t encoding_first_patch(const struct encoding *x)
{
    return x->e->w.class && !x->e->p.class_last ? 1 : 0;
}

static inline uint32_t encoding_class_row(const struct encoding *x)
{
    return !x->e->w.class ? UINT32_MAX : x->e->p.class_last ? x->rows - 1 : 0;
}

static inline uint32_t encoding_row_of(const struct encoding *x, uint32_t patch)
{
    return x->row_of ? x->row_of[patch] : encoding_first_patch(x) + patch;
}

static inline uint32_t encoding_patch_at(const struct encoding *x, uint32_t row)
{
    return x->patch_at ? x->patch_at[row] : row - encoding_first_patch(x);
}

/* Whether the rows of the block that is computed see their windows only. */
static inline bool encoding_windowed(const struct encoding *x)
{
    return x->e->p.window && (x->block + 1) % x->e->p.full_every;
}

/* K of one head in block @i of 32 rows; V follows after x->kv_half. */
static inline uint8_t *encoding_k(const struct encoding *x, uint32_t i, uint32_t head)
{
    return x->kv + ((size_t)i * x->e->p.heads + head) * 2 * x->kv_half;
}

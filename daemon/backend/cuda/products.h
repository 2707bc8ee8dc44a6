/* SPDX-License-Identifier: MIT */
#pragma once
/* Products of matrices with the activations of a batch. */
#include "daemon/backend/cuda/device.h"
#include "kernels/cuda/cuda-args.h"
#include "kernels/cuda/expert-args.h"
#include "kernels/kernels.h"
#include <stdbool.h>

#define CUDA_FEW_MOST 64  /* most tokens for which the kernels for few are used, without bulk copies */
#define CUDA_NARROW   256 /* most tokens whose activations are not wide */

/* The kernels of one type of weights. */
struct cuda_kind {
    CUfunction few, several, some, many;    /* of float types: few alone */
    CUfunction one, two;                    /* two: of kinds that cuda_can_mix(), or NULL */
    CUfunction batch[3], split[2], hold[2]; /* of quantized types, where the device has bulk copies, or NULL */
    CUfunction half, wide;                  /* the same */
    CUfunction tiles8, tiles64;             /* of experts, or NULL; of float types tiles8 alone */
    struct cuda_form form;
    uint32_t width, many_threads; /* bits of a code; threads of a CTA of many */
    bool halves, plain;           /* those of a block have factors; it has one scale, no offset and no table */
};

/* Find the kernels of a type. */
int cuda_kind(const struct cuda_device *d, struct cuda_kind *out, enum kern_type type);

/* The activations of @n tokens are wide. */
static inline bool cuda_is_wide(const struct cuda_device *d, uint32_t n)
{
    return d->early && n > CUDA_NARROW;
}

/* Which kernel computes: that which is best for the tokens, or always the same. Of float types there is one. */
enum cuda_which {
    CUDA_BEST,
    CUDA_USE_FEW,
    CUDA_USE_SEVERAL,
    CUDA_USE_SOME,
    CUDA_USE_MANY,
    CUDA_USE_BATCH,
    CUDA_USE_SPLIT,
    CUDA_USE_HOLD8,  /* a warp has 8 tokens */
    CUDA_USE_HOLD16, /* a warp has 16 tokens, if there are so many */
    CUDA_USE_HALF,   /* wide activations, as that which follows */
    CUDA_USE_WIDE
};

/* Start @a, whose members but for form, panels, panel0 and chunk are set, with the kernels @k of its type. */
int cuda_multiply(const struct cuda_device *d, const struct cuda_kind *k, struct cuda_matmul *a, enum cuda_which which);

/* Models whose weights have this type are faster with cuda_device.together: it has one scale for a block, and no table
 * (measured, H200: Q4_0 becomes faster, Q4_K slower). */
bool cuda_runs_together(enum kern_type type);

/* cuda_multiply_one can be used for matrices of @columns columns. It starts the products of one token; @a->m as above,
 * ring and stages are set. */
bool cuda_one_fits(const struct cuda_kind *k, uint32_t columns);
int cuda_multiply_one(const struct cuda_device *d, const struct cuda_kind *k, struct cuda_one *a);

/* The same of matrices of two types, whose kinds have @two. */
int cuda_multiply_two(const struct cuda_device *d, const struct cuda_kind *const k[2], struct cuda_two *a);

/* Find the kernels of a type for experts, of tiles of up to 8 and up to CUDA_TILE_ROWS rows. */
#define CUDA_TILE_ROWS 64
int cuda_tile_kinds(const struct cuda_device *d, struct cuda_kind *out, enum kern_type type);

/* Products of the rows of @tiles tiles with their experts' matrices. @large: tiles have up to CUDA_TILE_ROWS rows,
 * which float types cannot; else up to 8. @a->m as for cuda_multiply. */
int cuda_multiply_tiles(const struct cuda_device *d, const struct cuda_kind *k, struct cuda_group *a, uint32_t tiles,
                        bool large);

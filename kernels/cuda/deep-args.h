/* SPDX-License-Identifier: MIT */
#pragma once
/* Sizes of cuda_deep_* and cuda_deep_few_*, which the host needs too: see attn-deep.cu. @rows: queries of a CTA; @few:
 * the kernel is for one CTA of a multiprocessor. */
#include "kernels/cuda/cuda-args.h"

#define CUDA_DEEP_WARPS(few)   ((few) ? 8 : 4) /* that compute */
#define CUDA_DEEP_THREADS(few) ((CUDA_DEEP_WARPS(few) + 1) * CUDA_WARP)
#define CUDA_DEEP_CTAS(few)    ((few) ? 2 : 4)                    /* for which a multiprocessor has registers */
#define CUDA_DEEP_QUAD         4                                  /* blocks, which a warp has at once */
#define CUDA_DEEP_KEYS         (CUDA_DEEP_QUAD * CUDA_WARP)       /* of these */
#define CUDA_DEEP_DIMS         32                                 /* of a quad of K: a piece, */
#define CUDA_DEEP_PART         (CUDA_DEEP_DIMS * CUDA_WARP * 2)   /* of which a block has so many bytes */
#define CUDA_DEEP_SHIFT        (CUDA_DEEP_PART + 64)              /* from block to block: other banks */
#define CUDA_DEEP_SLOT         (CUDA_DEEP_QUAD * CUDA_DEEP_SHIFT) /* of a piece in shared memory */
#define CUDA_DEEP_SLOTS        16                                 /* at most */
#define CUDA_DEEP_ENDS         8                                  /* rows of which there is a largest score, at most */
#define CUDA_MERGE_WARPS       4                                  /* of cuda_merge_deep */
/* Bytes: slots, weights, queries, K and V of the token, numbers of each row and block, ends of rows, angles. */
#define CUDA_DEEP_SHARED(dim, rows, slots)                                                                             \
    ((slots)*CUDA_DEEP_SLOT + 4 * ((rows)*CUDA_SEGMENT + (rows) * (dim) + 2 * (dim) +                                  \
                                   3 * (rows)*CUDA_SEGMENT / CUDA_WARP + CUDA_DEEP_ENDS + (dim)))

struct cuda_deep {
    struct cuda_decode a;
    uint32_t slots; /* pieces in shared memory, at least 1 */
    uint32_t plain; /* cuda_only_rotates() */
    uint32_t share; /* KV heads of the arguments that have the same K and V: the queries of one are divided */
};

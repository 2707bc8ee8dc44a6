/* SPDX-License-Identifier: MIT */
#pragma once
/* Sizes of cuda_deep_*, which the host needs too: see attn-deep.cu. */
#include "kernels/cuda/cuda-args.h"

#define CUDA_DEEP_WARPS   8 /* that compute; each has two of the tile's blocks */
#define CUDA_DEEP_THREADS ((CUDA_DEEP_WARPS + 1) * CUDA_WARP)
#define CUDA_DEEP_DIMS    64                               /* of two blocks of K: a piece, */
#define CUDA_DEEP_HALF    (CUDA_DEEP_DIMS * CUDA_WARP * 2) /* whose half is that of a block, in bytes */
#define CUDA_DEEP_SLOT    (2 * CUDA_DEEP_HALF + 128)       /* of a piece in shared memory */
#define CUDA_DEEP_CTAS    3                                /* of a multiprocessor, at most */
/* Bytes: slots, weights, queries, K and V of the token, numbers of each row and block, ends of rows, angles. */
#define CUDA_DEEP_SHARED(dim, rows, slots)                                                                             \
    ((slots)*CUDA_DEEP_SLOT +                                                                                          \
     4 * ((rows)*CUDA_SEGMENT + (rows) * (dim) + 2 * (dim) + 3 * (rows)*CUDA_SEGMENT / CUDA_WARP + (rows) + (dim)))

struct cuda_deep {
    struct cuda_decode a;
    uint32_t slots; /* pieces in shared memory */
};

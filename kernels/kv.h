/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The layout of one KV block of one KV head: 32 tokens (KV_BLOCK) of dim values. K is dim-major, so that a lane is a
 * key, V token-major, so that a lane is a dim.
 *
 *   F32, F16   K [dim][32] values            V [32][dim] values
 *   Q8         K i8 [dim][32] codes          V i8 [32][dim] codes         padded to KERN_ALIGN, then
 *              f16 [groups][32] scales       f16 [32][groups] scales
 *
 * Q8 has one scale for each token and group of 32 dims (the last one may be short): a token is stored without a look
 * at the others. A multiple of 32 dims costs 34 bytes for 32 values.
 */
#include "kernels/kernels.h"

#define KV_GROUP 32 /* dims that share a scale */

static inline size_t kv_groups(size_t dim)
{
    return (dim + KV_GROUP - 1) / KV_GROUP;
}

/* Bytes of Q8's codes in a block, which is where the scales begin. */
static inline size_t kv_codes(size_t dim)
{
    return kern_align(KV_BLOCK * dim);
}

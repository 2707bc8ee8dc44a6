/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The arguments of the kernels for latent attention (daemon/backend/cpu/mla.c), as in cuda-args.h. Rows by head: row
 * h * apart + i is head h of token i, which is a row for the head's matrix (struct cuda_group). A token's K has rank
 * values and then rope ones that are rotated; V is the first rank of them.
 */
#include "kernels/cuda/cuda-args.h"

/* What lies between the products and attention: K goes to its block, the rotated parts of the queries stay in place,
 * and the others become rows by head. A warp for K and each head of a token (x): eight in a CTA (y). Shared memory:
 * rank + rope floats. */
struct cuda_latent_heads {
    float *q;                       /* [n][heads][nope + rope] */
    float *q_sinks;                 /* the same of tokens that slide, for their sinks; NULL: none slides */
    const float *k;                 /* [n][rank + rope] */
    const float *k_norm;            /* [rank] */
    const float *cs, *sink_cs;      /* [n][rope] */
    const struct cuda_token *token; /* [n] */
    struct cuda_kv kv;
    float *f;              /* [heads][apart][nope], or NULL */
    struct cuda_acts rows; /* the same, quantized; rows.q NULL: they are not */
    float eps;
    uint32_t heads, apart, nope, rope, rank;
    uint8_t group, type, rotates, neox; /* as in struct cuda_heads */
};

#define CUDA_LATENT_ROWS 16 /* most queries of a CTA */

/* Shared memory of cuda_attn_latent_* for keys of @wide dims, rounded up to a multiple of 4. */
#define CUDA_LATENT_SHARED(wide) (CUDA_LATENT_ROWS * 4 * ((wide) + CUDA_SEGMENT + 3 * CUDA_SEGMENT / CUDA_WARP))

/* Attention. One CTA for each tile (x) and a.group of the tile's heads (y), the last of which may have fewer. Shared
 * memory: CUDA_LATENT_SHARED. */
struct cuda_attn_latent {
    struct cuda_attn a;    /* dim: rank + rope; q: [n][heads][nope + rope]; o: [rows][heads][rank]; kv.each: 0 */
    const float *absorbed; /* [heads][apart][rank] the queries but for their last rope values */
    const float *warmth;   /* [n] factors of the queries, or NULL */
    uint32_t apart, nope, rank;
};

/* Rows by head -> f or q. The grid is that of cuda_gated. */
struct cuda_latent_join {
    const float *x; /* [heads][apart][value] */
    float *f;       /* [n][k], or NULL */
    struct cuda_acts q;
    uint32_t k, value, apart;
};

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The arguments of the kernels for mixtures of experts, as in cuda-args.h. A token has a choice for each of its
 * experts: choice number token * used + j. Each choice has a row among those that are sorted by expert; the rows of an
 * expert begin at a multiple of CUDA_ROW_ALIGN, and what lies between is not used.
 */
#include "kernels/cuda/cuda-args.h"

#define CUDA_EXPERTS   1024 /* HPARAMS_EXPERTS_MAX */
#define CUDA_ROW_ALIGN 8

/* Rows of one expert. */
struct cuda_tile_rows {
    uint32_t expert, first, n;
};

/* Choose the experts of tokens, as daemon/backend/cpu/route.c does. A warp for each token (x). */
struct cuda_route {
    const float *scores;      /* [n][experts] */
    const uint32_t *list;     /* [n] rows of scores, or NULL: row i */
    const float *bias;        /* [experts] of the scores, or NULL */
    const float *choice_bias; /* [experts] of the probabilities, or NULL */
    uint32_t *chosen;         /* [n][used] */
    float *share;             /* [n][used] */
    uint32_t experts, used, groups, groups_used;
    float scale;
    uint8_t sigmoid, of_all, scaled_input;
};

/* Sort the choices by expert: one CTA of CUDA_EXPERTS threads. */
struct cuda_sort {
    const uint32_t *chosen;       /* [n] */
    uint32_t *row;                /* [n] of each choice */
    struct cuda_tile_rows *tiles; /* [n_tiles]; those behind the last have no rows */
    uint32_t n, experts, n_tiles; /* n_tiles: enough for all */
    uint32_t most;                /* rows of a tile */
};

/* The rows' inputs: x of the token, times the share if there is one -> f or q. A grid as of cuda_gated, a choice for
 * each y. */
struct cuda_gather {
    const float *x;      /* [tokens][k] */
    const float *share;  /* [choices], or NULL */
    const uint32_t *row; /* [choices] */
    float *f;            /* [rows][k], or NULL */
    struct cuda_acts q;  /* q.q NULL: not quantized */
    uint32_t used, k;
};

/* Products of the rows of tiles with the matrices of their experts: of[].panels are those of expert 0. Without @tiles
 * each matrix has m.n rows, those of matrix e from row e * apart on, in tiles of @most. */
struct cuda_group {
    struct cuda_matmul m;
    const struct cuda_tile_rows *tiles;
    uint32_t apart, most;
};

/* cuda_gated of rows, whose biases are [experts][k]. A choice for each y. */
struct cuda_gated_rows {
    struct cuda_gated g;
    const uint32_t *row, *chosen; /* [choices] */
};

/* h = the sum over a token's choices, in their order, of (rows + bias) * scale * share; behind the shared expert's
 * output, which is in h, times the sigmoid of its score. A thread for each column (x) of a token (y). */
struct cuda_add_experts {
    const float *rows;  /* [rows][k] */
    const float *bias;  /* [experts][k], or NULL */
    const float *scale; /* [experts], or NULL */
    const float *share; /* [choices], or NULL */
    const uint32_t *row, *chosen;
    const float *score;       /* [n] of the shared expert, or NULL */
    float *h;                 /* [n][k] */
    uint32_t used, k, shared; /* shared: h has an output */
};

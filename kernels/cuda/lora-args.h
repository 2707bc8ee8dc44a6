/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The arguments of the kernels for low-rank adapters (kernels/ARITHMETIC.md), as in cuda-args.h. The rows of a batch
 * that have an adapter are sorted by it and cut into tiles of up to CUDA_LORA_ROWS.
 */
#include "kernels/cuda/cuda-args.h"

#define CUDA_LORA_ROWS 16

/* What an adapter has for one of the model's matrices, in panels. The types are those of enum kern_type. */
struct cuda_lora_part {
    const uint8_t *a, *b;      /* [rank][k], [rows][rank] */
    uint32_t a_bytes, b_bytes; /* of a panel */
    uint32_t rank;             /* 0: there is nothing */
    float alpha;               /* 0: the scale is not divided by the rank */
    uint8_t a_type, b_type;
};

/* Rows of one adapter: number first … of the order. */
struct cuda_lora_tile {
    uint32_t adapter, first, n; /* n 0: the tile is not used */
};

/* One of the products y = W x. */
struct cuda_lora_product {
    float *y;            /* [n][rows] */
    uint32_t rows, slot; /* slot: of the matrix, in parts */
};

/* cuda_lora_low: low = (A x) times the scale, of each product; cuda_lora_add: y = y + B low. Grid: (panels, tiles), of
 * CUDA_LORA_ROWS times 16 threads. Panels of the first: of all products, as many of each as the largest rank has. */
struct cuda_lora {
    struct cuda_lora_product of[CUDA_PRODUCTS];
    const struct cuda_lora_part *parts; /* [adapters][slots] */
    const struct cuda_lora_tile *tiles;
    const uint32_t *order; /* rows of the batch, those of a tile side by side; the products have those from @first on */
    const float *scales;   /* of the same rows */
    const float *x;        /* [n][k] */
    float *low;            /* [products][n][rank] */
    uint32_t slots, first, n, k;
    uint32_t rank; /* the largest, a multiple of 16 */
};

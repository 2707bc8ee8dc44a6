/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Private to the CPU backend: low-rank adapters (model/adapter.h). A product y = W x of a token with an adapter gets
 * y = y + B (s * (A x)); kernels/ARITHMETIC.md has the order of the operations. The rows of a batch are sorted by
 * adapter: those of one are multiplied together, and adapters that a batch does not use cost nothing. Each result is of
 * one row alone, so that it does not depend on the others.
 *
 * A product of the batch (product.c) has two parts for adapters: lora_low computes s * (A x) of its input in a run of
 * the compute pool of its own; lora_add adds B times that to some rows of the result, in the run of the product.
 */
#include "daemon/backend/cpu/weights.h"
#include "daemon/model/adapter.h"

struct backend;
struct pass;
struct product;
struct acts;

#define LORA_MOST   64                     /* adapters of a model */
#define LORA_SET    (5 + RECURRENT_INPUTS) /* products of one input */
#define LORA_GATHER 16                     /* rows that do not follow each other and are multiplied together */

/* The matrices for one of the model's, or for a part of it. */
struct lora_part {
    struct matrix a, b; /* [rank][k], [rows][rank] */
    uint32_t rank;      /* 0: there are none */
};

struct lora {
    const struct adapter *adapter;
    struct lora_part *parts; /* [weights.n_items + 1], by matrix.slot */
    struct lora_part rows;   /* of the tokens' embeddings; a is in the file */
    const struct gguf_tensor *rows_a;
    void *mem; /* the panels, of @size bytes */
    size_t size;
};

/* Rows of one adapter, lora_scratch.order[first …]. */
struct lora_tile {
    uint32_t lora, first, n;
    bool apart; /* they do not follow each other in the batch */
};

/* Buffers of a batch of up to batch_tokens; they are made with the first adapter, and again for wider ones. */
struct lora_scratch {
    void *mem;
    size_t size;
    uint32_t rank, width;          /* most of any adapter, and values of the widest input */
    uint32_t *order;               /* [tokens] the rows with an adapter, by adapter, then ascending */
    uint32_t first[LORA_MOST + 1]; /* where the rows of an adapter begin in it */
    struct lora_tile *tiles;       /* [tokens] */
    uint32_t n_tiles;
    float *low;      /* [LORA_SET][tokens][rank] */
    float *gathered; /* [threads][LORA_GATHER][width] */
    float *more;     /* [threads][LORA_MORE] */
};

struct lora_set {
    struct lora list[LORA_MOST];
    uint32_t n;
    struct lora_scratch scratch;
};

/* As in struct backend_ops. */
int lora_load(struct backend *b, const struct adapter *a, uint32_t *number, uint64_t *bytes);
void lora_fini(struct lora_set *s);

/* Forget the last one that was loaded. */
void lora_drop(struct lora_set *s);

/* Sort the rows of the batch, scratch.tokens[p->n], by adapter; whenever they have changed. */
void lora_sort(struct pass *p);

/* A row of the batch has an adapter. */
bool lora_any(const struct pass *p);

/* s * (A x) of the inputs @in of the @n products of @set (at most LORA_SET), for all rows with an adapter. */
void lora_low(struct pass *p, const struct product *set, uint32_t n, const struct acts *in);

/* Rows of a result that one call of a kernel has computed. */
struct lora_piece {
    const struct matrix *m;
    uint32_t product;   /* its number in the set */
    uint32_t t, n;      /* rows of the batch, n <= TILE_MOST, */
    uint32_t row, rows; /* and of the matrix; row is a multiple of KERN_ROWS */
    float *out;         /* of row t and @row */
    size_t ld;
};

/* Add B times what lora_low has computed. */
void lora_add(const struct pass *p, const struct lora_piece *y, uint32_t thread);

/* Add to the embedding x[dim] of @token, of an entry with @adapter and @scale. */
void lora_embed(const struct pass *p, uint32_t adapter, float scale, uint32_t token, float *x, uint32_t thread);

/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to weights*.c: the tensors of a file that the weights are made of, and their places in the image. */
#include "daemon/backend/cpu/weights.h"

/* One tensor, or some rows of it, and where it goes: a matrix, or a vector. */
struct weights_item {
    const struct gguf_tensor *t;
    uint32_t row;          /* of a matrix: its first row in the tensor; of a vector: its first value */
    uint32_t all;          /* of a matrix: rows of the tensor, of each stacked matrix */
    uint32_t span, step;   /* of a matrix: it has the first @span of each @step rows; 0: all from row on */
    struct matrix *matrix; /* NULL: a vector */
    bool transposed;       /* of a matrix: @all rows of the tensor are @k columns of each stacked one, from @row on */
    const float **vector;
    bool turned;          /* a vector of rows is stored by columns */
    size_t offset, bytes; /* in the image */
    uint64_t source;      /* bytes in the file */
};

#define WEIGHTS_LAYER_ITEMS 40 /* at most */
#define WEIGHTS_OTHER_ITEMS 20

struct weights_plan {
    struct weights *w;
    const struct gguf *g;
    const struct hparams *s;
    struct weights_item *items; /* room for WEIGHTS_LAYER_ITEMS a layer and WEIGHTS_OTHER_ITEMS */
    size_t n;                   /* items */
    size_t size;                /* bytes of the image */
    size_t tensors;             /* of the file that the items are made of */
    uint64_t source;            /* bytes in the file */
    size_t *begin;              /* [layers + 1] where each layer begins in the image, and the last one ends; or NULL */
};

/* The matrix "blk.@l.@which.weight", @rows of @k values, to *m. Errors as those of weights_plan. */
int weights_want_matrix(struct weights_plan *p, struct matrix *m, uint32_t l, const char *which, uint32_t k,
                        uint32_t rows);
/* The vector "blk.@l.@which" of @n values to *v; if @rows is not 0, @rows vectors, stored as [n][rows]. */
int weights_want_vector(struct weights_plan *p, const float **v, uint32_t l, const char *which, uint32_t n,
                        uint32_t rows);

/* The same, stored as in the file. */
int weights_want_rows(struct weights_plan *p, const float **v, uint32_t l, const char *which, uint32_t n,
                      uint32_t rows);
/* A table of the file with a row of @k values for each token, which stays in the file: *data and *type. */
int weights_want_table(struct weights_plan *p, const char *name, uint32_t k, const void **data, enum kern_type *type);
/* As weights_want_matrix, of a tensor @name with @stacked matrices. */
int weights_want_stack(struct weights_plan *p, struct matrix *m, const char *name, uint32_t k, uint32_t rows,
                       uint32_t stacked);

/* weights-plan-layers.c: the tensors of layers' embeddings, of AltUp, and of a feed-forward beside experts, of layer
 * @l, and those that the layers share. */
int weights_want_layer_embedding(struct weights_plan *p, struct layer *y, uint32_t l);
int weights_want_altup(struct weights_plan *p, struct layer *y, uint32_t l);
int weights_want_beside(struct weights_plan *p, struct layer *y, uint32_t l);
int weights_want_per_layer(struct weights_plan *p);

/* weights-encoder.c: what comes before the first layer of an encoder; the norms of its layer @l where they are those of
 * the residual stream; what follows pooling, of any model. */
int weights_want_encoder(struct weights_plan *p);
int weights_want_outer_norms(struct weights_plan *p, struct layer *y, uint32_t l);
int weights_want_head(struct weights_plan *p);

/* Factors of the RoPE frequencies: one set, or LongRoPE's two. */
int weights_want_rope(struct weights_plan *p);

/* Refuse a file with tensors that the forward pass does not use, such as extra biases and norms: answers would be
 * wrong. The plan has all that it uses. 0, or -EOPNOTSUPP and the error message. */
int weights_refuse_others(const struct weights_plan *p);

/* The file has the tensor "blk.@l.@which". */
bool weights_has(const struct weights_plan *p, uint32_t l, const char *which);

/* The parts of an MTP layer around its block (weights-mtp.c). */
int weights_want_mtp(struct weights_plan *p);

/* Fill @p, whose w, g, s and items are set, and the matrices of p->w but for their panels. 0; -EINVAL for a tensor that
 * is missing or has other dimensions; -EOPNOTSUPP for a type or a tensor that is not supported; the error message names
 * the tensor. */
int weights_plan(struct weights_plan *p);

/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to weights-*.c: adds items to a plan. Each function takes one tensor of the file, or a part of it, and
 * compares its dimensions with the model's keys. They return 0 or an error as weights_plan does. */
#include "daemon/backend/cpu/weights-plan.h"

/* Rows of a tensor that a matrix uses: several matrices may share a tensor, and a tensor may stack matrices. */
struct weights_source {
    uint32_t first, all, stacked;
    uint32_t span, step; /* as in struct weights_item; span is a multiple of KERN_ROWS */
};

/* A matrix of a layer: "blk.N.@name.weight". */
struct weights_part {
    const char *name;
    struct matrix *m;
    uint32_t k, rows;
    struct weights_source from;
};

/* "blk.@l.@which.@what"; @what: "weight" or "bias". */
struct weights_name {
    char s[64];
};
struct weights_name weights_name(uint32_t l, const char *which, const char *what);

/* The file has the tensor "blk.@l.@which.weight". */
bool weights_has_weight(const struct weights_plan *p, uint32_t l, const char *which);

int weights_type_of(const struct weights_plan *p, const struct gguf_tensor *t, enum kern_type *type);
/* The type of @t, whose name is @name, is one of vectors. */
int weights_check_vector(const struct weights_plan *p, const struct gguf_tensor *t, const char *name);

/* The tensor @name, @stacked matrices of @rows rows of @k values, to *out. */
int weights_find(const struct weights_plan *p, const char *name, uint64_t k, uint64_t rows, uint64_t stacked,
                 const struct gguf_tensor **out);
/* A new item of @t, @bytes long in the image and @source in the file; it belongs to the plan. */
struct weights_item *weights_reserve(struct weights_plan *p, const struct gguf_tensor *t, size_t bytes,
                                     uint64_t source);

/* Matrices: @rows rows of @k values, those that @from tells, of the tensor @name; all rows of it; some of a layer. */
int weights_want_part(struct weights_plan *p, struct matrix *m, const char *name, uint32_t k, uint32_t rows,
                      struct weights_source from);
int weights_want_named(struct weights_plan *p, struct matrix *m, const char *name, uint32_t k, uint32_t rows);
int weights_want_parts(struct weights_plan *p, uint32_t l, const struct weights_part *parts, size_t n);

/* Vectors: @stacked consecutive ones of @n values of the tensor @name; one; one of a layer, if @there. */
int weights_want_vectors(struct weights_plan *p, const float **v, const char *name, uint32_t n, uint32_t stacked);
int weights_want_named_vector(struct weights_plan *p, const float **v, const char *name, uint32_t n);
int weights_want_norm(struct weights_plan *p, const float **v, uint32_t l, const char *which, uint32_t n, bool there);

/* The bias of a norm, if the architecture has it. */
int weights_want_norm_bias(struct weights_plan *p, const float **v, const char *name);
/* The norms of a layer, and the biases of its products, whose matrices are planned. */
int weights_want_norms(struct weights_plan *p, struct layer *y, uint32_t l);
int weights_want_biases(struct weights_plan *p, struct layer *y, uint32_t l);

/* The matrices of a layer's attention: plain or with gates of the queries; latent. */
int weights_want_attention(struct weights_plan *p, struct layer *y, uint32_t l);
int weights_want_latent(struct weights_plan *p, struct layer *y, uint32_t l);

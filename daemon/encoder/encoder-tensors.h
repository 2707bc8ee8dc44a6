/* SPDX-License-Identifier: MIT */
#pragma once
/* Reading the tensors of an image encoder one by one. */
#include "daemon/encoder/encoder-weights.h"
#include "daemon/media/media.h"

struct tensor_reader {
    const struct gguf *g;
    bool *used; /* [gguf_n_tensors] tensors that were read, or that this encoder does not compute */
    int error;  /* the first one; the functions below do nothing after it */
};

struct tensor_name {
    char s[48];
};

/* "@kind.blk.@i.@part": of a block. */
struct tensor_name tensor_in_block(const char *kind, uint32_t i, const char *part);

/* 0: the caller calls tensor_reader_fini; -ENOMEM. */
int tensor_reader_init(struct tensor_reader *r, const struct gguf *g);
void tensor_reader_fini(struct tensor_reader *r);

/* The vector @name.@part [n], for the caller to free. NULL: an error, or it is absent and @need is false. */
float *tensor_read_vector(struct tensor_reader *r, const char *name, const char *part, uint32_t n, bool need);

/* The matrix @name.weight [rows][k] as floats, for the caller to free. */
float *tensor_read_floats(struct tensor_reader *r, const char *name, uint32_t rows, uint32_t k);

/* The matrix @name.weight [rows][k] and, if there is one, @name.bias [rows]. @rows 0: as many as the tensor has. */
void tensor_read_matrix(struct tensor_reader *r, struct encoder_matrix *m, const char *name, uint32_t rows, uint32_t k);

/* A convolution @name.weight [rows][3][edge][edge] of float weights, as a matrix. */
void tensor_read_patches(struct tensor_reader *r, struct encoder_matrix *m, const char *name, uint32_t rows,
                         uint32_t edge);

/* The sum of the convolutions @name.weight and @name.@second. */
void tensor_read_patch_sum(struct tensor_reader *r, struct encoder_matrix *m, const char *name, const char *second,
                           uint32_t rows, uint32_t edge);

/* A convolution @name.weight [rows][k][taps] of float weights as a matrix [rows][taps][k], and @name.bias [rows][1]. */
void tensor_read_convolution(struct tensor_reader *r, struct encoder_matrix *m, const char *name, uint32_t rows,
                             uint32_t taps, uint32_t k);

/* Rows of the matrix @name.weight; 0: there is none. */
uint32_t tensor_rows(const struct tensor_reader *r, const char *name);

/* The matrix that @name.weight holds transposed, [k][rows], of float weights. @rows 0: as in tensor_read_matrix. */
void tensor_read_transposed(struct tensor_reader *r, struct encoder_matrix *m, const char *name, uint32_t rows,
                            uint32_t k);

/* @name.weight and @name.bias; the weight may be absent if @need is false. */
void tensor_read_norm(struct tensor_reader *r, struct encoder_norm *n, const char *name, uint32_t dim, bool need);

bool tensor_exists(const struct tensor_reader *r, const char *name, const char *part);

/* Mark all tensors whose names begin with @prefix as used. */
void tensor_skip(struct tensor_reader *r, const char *prefix);

/* Fails if a tensor of an image encoder ("v.", "mm.", "model."), or of one of sounds ("a.", "mm.a."), was not used. */
void tensor_reader_end(struct tensor_reader *r, enum media_kind kind);

void encoder_matrix_fini(struct encoder_matrix *m);

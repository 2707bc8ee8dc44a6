/* SPDX-License-Identifier: MIT */
#pragma once
/* What only the reference pass uses: its own decoding of tensors, and OpenBLAS. */
#include "daemon/model/gguf.h"

/* C[m][n] = A[m][k] * B^T with B [n][k], all row-major with the given row strides; transpose_b false: B is [k][n]. */
struct blas {
    void *handle;
    void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                  int ldb, float beta, float *c, int ldc);
};

/* 0, or -ENOENT and the error message. blas_close accepts a zeroed *b. */
int blas_open(struct blas *b);
void blas_close(struct blas *b);
void blas_product(const struct blas *b, float *c, int ldc, const float *a, int lda, const float *bm, int ldb, int m,
                  int n, int k, bool transpose_b);

/* Rows [row, row+rows) of a tensor as f32 [rows][dims[0]]; stacked matrices are consecutive. 0, or -EOPNOTSUPP and
 * the error message for an unknown type. */
int reference_rows(const struct gguf_tensor *t, uint64_t row, uint64_t rows, float *out);

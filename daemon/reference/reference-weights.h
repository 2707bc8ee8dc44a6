/* SPDX-License-Identifier: MIT */
#pragma once
/* Decoding of tensors and matrix products for the reference pass, which shares no code with the fast path. */
#include "daemon/model/gguf.h"
#include "kernels/kernels.h"

struct blas {
    void *handle;
    /* cblas_sgemm */
    void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                  int ldb, float beta, float *c, int ldc);
};

/* c[m][n] = a[m][k] * B, row-major, with row strides in floats. B is the transpose of b[n][k], or b[k][n] itself if
 * @transpose_b is false. */
struct blas_product {
    float *c;
    const float *a, *b;
    int ldc, lda, ldb;
    int m, n, k;
    bool transpose_b;
};

/* Load OpenBLAS into the zeroed *b. 0, or -ENOENT and the error message. The caller calls blas_close in both cases,
 * which also accepts a zeroed *b. */
int blas_open(struct blas *b);
void blas_close(struct blas *b);
void blas_multiply(const struct blas *b, const struct blas_product *p);

/* reference-iq.c: one row of @k values of a type. */
void reference_row_tq1_0(float *out, const uint8_t *p, uint64_t k);
void reference_row_tq2_0(float *out, const uint8_t *p, uint64_t k);
void reference_row_iq1_s(float *out, const uint8_t *p, uint64_t k);
void reference_row_iq1_m(float *out, const uint8_t *p, uint64_t k);
void reference_row_iq2_xxs(float *out, const uint8_t *p, uint64_t k);
void reference_row_iq2_xs(float *out, const uint8_t *p, uint64_t k);
void reference_row_iq2_s(float *out, const uint8_t *p, uint64_t k);
void reference_row_iq3_xxs(float *out, const uint8_t *p, uint64_t k);
void reference_row_iq3_s(float *out, const uint8_t *p, uint64_t k);

/* Rows [row, row+rows) of a tensor as f32 [rows][dims[0]]; stacked matrices are consecutive. 0, or -EOPNOTSUPP and
 * the error message for an unknown type. */
int reference_rows(const struct gguf_tensor *t, uint64_t row, uint64_t rows, float *out);

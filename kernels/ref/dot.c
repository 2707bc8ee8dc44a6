/* SPDX-License-Identifier: MIT */
/* Dot products of int8 codes. */
#include "kernels/ref/ref.h"

void REF(dot_rows)(int32_t *out, const int8_t *rows, size_t ld, size_t n, const int8_t *q, size_t k)
{
    for (size_t i = 0; i < n; i++) {
        int32_t sum = 0;
        for (size_t j = 0; j < k; j++) sum += rows[i * ld + j] * q[j];
        out[i] = sum;
    }
}

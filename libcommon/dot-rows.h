/* SPDX-License-Identifier: MIT */
#pragma once
/* Sums of products of int8 codes. They are exact, so that they are the same on every CPU. */
#include <stddef.h>
#include <stdint.h>

#define DOT_BLOCK 32
#define DOT_MAX   65536 /* most codes of a row, so that a sum fits */

/* out[i] = the sum of rows[i*ld + j] * q[j] over j < k, for @n rows at any alignment. Codes are -127 … 127; k is a
 * multiple of DOT_BLOCK, at most DOT_MAX. */
typedef void dot_rows_fn(int32_t *out, const int8_t *rows, size_t ld, size_t n, const int8_t *q, size_t k);

/* The fastest one for this CPU, at most what @limit, a value of HOB_CPU, allows: NULL (no limit), "scalar", "avx2",
 * "avx512", "amx". NULL when @limit is not one of those. */
dot_rows_fn *dot_rows_get(const char *limit);

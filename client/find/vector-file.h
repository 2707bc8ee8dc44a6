/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The vectors of an index: rows of int8 codes in a file that is mapped to be searched.
 *
 * A row stands for a vector of length 1: value i is code i times the row's scale = amax / 127, code = round(x / scale),
 * half to even. No f32 copy is kept: it would make the file four times as large, and the error of a score by rounding
 * (about 0.001) is that of the models' own Q8_0 weights.
 *
 * The file, little-endian: a header of 64 bytes
 *     0  "hobvec1\n"    8  u32 dim    12  u32 0    16  u64 generation    24  u64 XXH3-64 of the 24 bytes before
 * then blocks of VECTOR_BLOCK rows: f32 scale[32], u32 check[32] (the low half of XXH3-64 of the row's codes, seeded
 * with the bits of its scale), int8 codes[32][stride]; stride is dim, rounded up to a multiple of 32, with zeros at the
 * end.
 *
 * The number of rows is in the database of the index, which is written after the rows are on disk. Rows are only
 * appended: a reader that has seen a number of rows may read them while others follow.
 */
#include "libcommon/buf.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VECTOR_BLOCK   32
#define VECTOR_DIM_MAX 65536

struct vector_file {
    int fd; /* owned; -1: none */
    uint32_t dim;
    uint64_t generation;
    const uint8_t *map; /* NULL: not mapped */
    size_t map_len;
};

#define VECTOR_FILE_INIT                                                                                               \
    {                                                                                                                  \
        .fd = -1                                                                                                       \
    }

/* Codes of a row and bytes of a block. */
size_t vector_stride(uint32_t dim);
size_t vector_block_bytes(uint32_t dim);

/* Make the file @name in @dir, mode 0600; an old one of that name is replaced. Call vector_file_close in any case. 0 or
 * -errno; sets the error message. */
int vector_file_make(struct vector_file *f, int dir, const char *name, uint32_t dim, uint64_t generation);

/* Open an existing one, to append if @write. 0; -ENOENT; -EBADMSG: not such a file, or of another dim or generation;
 * else -errno; sets the error message. */
int vector_file_open(struct vector_file *f, int dir, const char *name, uint32_t dim, uint64_t generation, bool write);
void vector_file_close(struct vector_file *f);

/* Map @rows rows for reading. 0; -EBADMSG: the file is shorter; else -errno; sets the error message. */
int vector_file_map(struct vector_file *f, uint64_t rows);

/* Write @n rows, as made by vector_quantize, as row @first and following. Nothing is on disk before vector_file_sync. 0
 * or -errno; sets the error message. */
int vector_file_write(struct vector_file *f, uint64_t first, const int8_t *codes, const float *scales, size_t n);
int vector_file_sync(struct vector_file *f);

/* Of a mapped file: the scales [32] and the codes [32][stride] of block @b, and whether row @row is as it was written.
 */
const float *vector_scales(const struct vector_file *f, uint64_t b);
const int8_t *vector_codes(const struct vector_file *f, uint64_t b);
bool vector_row_is_whole(const struct vector_file *f, uint64_t row);

/* The codes [vector_stride(dim)] of @x [dim], and its scale; a vector of zeros has scale 0. False: a value is not
 * finite.
 */
bool vector_quantize(int8_t *codes, float *scale, const float *x, uint32_t dim);

/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Resizing of images as Pillow's Image.resize does it, to the last bit. A pixel of the output is a weighted sum of the
 * pixels within the filter's support, which is wider where the image becomes smaller. The weights are computed in
 * double, made a sum of 1, and rounded to 22 fractional bits; sums are integers, rounded and clamped to 0 … 255. First
 * the columns, then the rows are resized.
 */
#include <stdint.h>

enum resize_filter { RESIZE_BILINEAR, RESIZE_BICUBIC /* a = -0.5 */, RESIZE_LANCZOS /* of 3 lobes */ };

/* The weights of one direction. */
struct resize_weights {
    uint32_t from, to; /* pixels */
    uint32_t *first;   /* [to] pixel of the input */
    uint32_t *at;      /* [to + 1] of its weights */
    int32_t *weight;   /* [at[to]] */
};

/* 0: the caller calls resize_weights_fini; -ENOMEM. @from and @to are from 1 to 65536. */
int resize_weights_init(struct resize_weights *w, uint32_t from, uint32_t to, enum resize_filter filter);
void resize_weights_fini(struct resize_weights *w);

/* Resize one row: @in [from][3] to @out [to][3]. */
void resize_row(const struct resize_weights *w, const uint8_t *in, uint8_t *out);

/* Row @y of the output: @in [from][n] bytes to @out [n]. */
void resize_column(const struct resize_weights *w, uint32_t y, const uint8_t *in, uint32_t n, uint8_t *out);

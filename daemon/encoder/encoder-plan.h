/* SPDX-License-Identifier: MIT */
#pragma once
/* How an image is resized and cut into tiles. */
#include "daemon/encoder/encoder.h"

/* Where an image is resized to. */
struct encoder_canvas {
    uint32_t edge_x, edge_y; /* pixels */
    uint32_t width, height;  /* of the image in its middle; around it is a border */
};

struct encoder_cutting {
    struct encoder_canvas cut;   /* of the tiles; unset without them */
    struct encoder_canvas whole; /* the whole image as the last tile, or the only one */
    uint32_t columns, rows;      /* tiles; 0: none but the whole image */
};

/* 0; -EINVAL as encoder_plan; sets the error message. */
int encoder_cut(const struct encoder *e, uint32_t width, uint32_t height, struct encoder_cutting *out);

/* Embeddings of a tile of @edge_x x @edge_y pixels. */
uint32_t encoder_items(const struct encoder *e, uint32_t edge_x, uint32_t edge_y);

/* The pixels of @edge when the longer one, which may be @other, is scaled to that of CUT_EDGE: rounded down, then up to
 * an even number. */
uint32_t encoder_long_edge(const struct encoder *e, uint32_t edge, uint32_t other);

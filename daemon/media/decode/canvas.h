/* SPDX-License-Identifier: MIT */
#pragma once
/* The pixels of an image while it is decoded: rows of a file become RGB on white, turned as its orientation says. */
#include "daemon/media/media.h"

struct canvas {
    uint32_t width, height; /* in the file, before it is turned */
    ptrdiff_t first, right,
        down;     /* in pixels of the result: place of the file's first pixel, steps in its rows and columns */
    uint8_t *rgb; /* the media's */
};

/* Make @m an image of @width x @height pixels with the @orientation of EXIF (1 to 8), whose pixels are not set yet. 0;
 * -EBADMSG: no pixels; -EFBIG: over the limit; -ENOMEM; sets the error message. */
int canvas_new(struct canvas *c, uint32_t width, uint32_t height, unsigned orientation, struct media *m);

/* All pixels are white. */
void canvas_white(struct canvas *c);

/* Set @n pixels of row @y, from column @x on. */
void canvas_rgb(struct canvas *c, uint32_t y, const uint8_t *row); /* [width][3], the whole row */
void canvas_rgba(struct canvas *c, uint32_t x, uint32_t y, const uint8_t *row, uint32_t n); /* [n][4], on white */
/* [width][4], the whole row; 255 is no ink, as in files of Adobe */
void canvas_cmyk(struct canvas *c, uint32_t y, const uint8_t *row);

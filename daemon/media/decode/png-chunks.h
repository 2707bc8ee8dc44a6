/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The chunks of a PNG file. libspng gets only the signature and the chunks that the pixels need (IHDR, PLTE, tRNS,
 * IDAT, IEND), so that it never parses or inflates texts and profiles.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct png_chunks {
    const uint8_t *data;
    size_t n; /* up to the end of IEND */
    uint32_t width, height;
    bool interlaced;
    const uint8_t *exif; /* [n_exif]; NULL: none */
    size_t n_exif;
    size_t next;      /* of png_chunks_read: the chunk after the one that is read */
    size_t from, end; /* the bytes that are read */
};

/* Check all chunks of @data [@n], which begins with the signature, and the checksums of those that the pixels need. 0;
 * -EBADMSG; sets the error message. @data must remain. */
int png_chunks_init(struct png_chunks *c, const uint8_t *data, size_t n);

/* Copy the next @n bytes for libspng. False: there are not so many. */
bool png_chunks_read(struct png_chunks *c, uint8_t *to, size_t n);

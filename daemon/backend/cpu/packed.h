/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Files of packed weights: the image that weights.c lays out in memory. The next start maps the file instead of packing
 * the weights again. There is one file per model and layout, FINGERPRINT-LAYOUT.hobw, which is never changed in place:
 *
 *   struct packed_header      which model, which layout, how large everything is
 *   struct packed_item[]      what is at which offset of the image
 *   u8[16][]                  XXH3-128 (canonical) of each PACKED_PIECE bytes of the image
 *   u8[16]                    XXH3-128 of all of the above
 *   zeros to PACKED_ALIGN, then the image, to the end of the file
 *
 * in the byte order of the machine. packed_map knows all but the checksums from the model's own file, and compares; a
 * file that differs is ignored.
 */
#include "daemon/model/fingerprint.h"

#define PACKED_ALIGN  (2u << 20) /* a huge page: the page cache may hold the file in huge pages */
#define PACKED_PIECE  (4u << 20)
#define PACKED_FORMAT 1
#define PACKED_EXT    ".hobw"

struct packed_header {
    char magic[8];   /* "hobw", zeros */
    uint32_t format; /* PACKED_FORMAT */
    uint32_t layout; /* KERN_LAYOUT */
    struct fingerprint model;
    uint64_t items;  /* number of items */
    uint64_t pieces; /* number of pieces: size / PACKED_PIECE, rounded up */
    uint64_t image;  /* offset in the file */
    uint64_t size;   /* bytes of the image */
};

struct packed_item {
    uint64_t offset, size; /* in the image */
    uint64_t k, rows;
    uint64_t type; /* enum kern_type; PACKED_VECTOR: f32 [k], not in panels */
};

#define PACKED_VECTOR UINT64_MAX

/* The content of the image. */
struct packed_table {
    struct packed_item *items;
    size_t n;
    uint64_t size;
};

struct packed; /* a mapped file */

/* Map the file of @model in @dir read-only, shared with other processes. Its image must have the table @t. On 0 *out is
 * owned by the caller; 1: there is no usable file. */
int packed_map(struct packed **out, const struct packed_table *t, const struct fingerprint *model, const char *dir);
struct packed *packed_unmap(struct packed *p);       /* NULL ok, returns NULL */
const uint8_t *packed_image(const struct packed *p); /* [t->size], aligned to pages */

/* Compare the image with its checksums. Returns 0; -ECANCELED if *stop became true; -EBADMSG if it differs: the file
 * was removed, and results computed with it are invalid. Errors set the error message. */
int packed_verify(const struct packed *p, const atomic_bool *stop);

/* Make huge pages map the image, after packed_verify has read it: if the page cache has no huge pages, copy the image
 * piece by piece to anonymous memory while it is in use. Returns 0 if nothing was necessary or possible; 1 if it was
 * copied; -ECANCELED, -ENOMEM or another -errno, and the error message: a part may have been copied. */
int packed_make_huge(struct packed *p, const atomic_bool *stop);

/* Write @image [t->size] to the file of @model in @dir, unless the file exists or another process is writing it.
 * Returns 0; -ENOSPC if the file would take more than half of the free space of the disk; -ECANCELED; -errno. Errors
 * set the error message. */
int packed_write(const struct packed_table *t, const struct fingerprint *model, const char *dir, const void *image,
                 const atomic_bool *stop);

/* Whether @dir has a file for @model, valid or not: 1 or 0; -errno: it cannot be looked up; sets the error message. */
int packed_exists(const struct fingerprint *model, const char *dir);

/* Remove from @dir the leftovers of a crash, records and packed weights of models that were removed or changed, and
 * files of older layouts. */
void packed_sweep(const char *dir);

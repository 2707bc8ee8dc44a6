/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The packed weights in a file of their own: the image that weights.c lays out in memory, so that the next start maps
 * it instead of making it. One file a model and layout, FINGERPRINT-LAYOUT.hobw, never changed in place:
 *
 *   struct packed_header      which model, which layout, how large everything is
 *   struct packed_item[]      what stands where in the image
 *   u8[16][]                  XXH3-128 (canonical) of each PACKED_PIECE bytes of the image
 *   u8[16]                    XXH3-128 of all of the above
 *   zeros to PACKED_ALIGN, then the image, to the end of the file
 *
 * in the byte order of the machine. Whoever maps it knows from the model's own file what all but the checksums must be,
 * and compares; a file that differs in any of it is as good as none.
 */
#include "daemon/model/fingerprint.h"

#define PACKED_ALIGN  (2u << 20) /* a huge page: the page cache may hold the file in such */
#define PACKED_PIECE  (4u << 20)
#define PACKED_FORMAT 1
#define PACKED_EXT    ".hobw"

struct packed_header {
    char magic[8];   /* "hobw", zeros */
    uint32_t format; /* PACKED_FORMAT */
    uint32_t layout; /* KERN_LAYOUT */
    struct fingerprint model;
    uint64_t items;  /* how many */
    uint64_t pieces; /* how many; size / PACKED_PIECE, rounded up */
    uint64_t image;  /* where it begins */
    uint64_t size;   /* its bytes */
};

struct packed_item {
    uint64_t offset, size; /* in the image */
    uint64_t k, rows;
    uint64_t type; /* enum kern_type; PACKED_VECTOR: f32 [k], not in panels */
};

#define PACKED_VECTOR UINT64_MAX

/* What is in the image. */
struct packed_table {
    struct packed_item *items;
    size_t n;
    uint64_t size;
};

struct packed; /* a mapped file */

/* Map the file of @model in @dir for reading, shared with every other process that does. 0: *out is the caller's, whose
 * image is @t's; 1: there is none that can be used. */
int packed_map(struct packed **out, const struct packed_table *t, const struct fingerprint *model, const char *dir);
struct packed *packed_unmap(struct packed *p);       /* NULL ok, returns NULL */
const uint8_t *packed_image(const struct packed *p); /* [t->size], aligned to pages */

/* Compare the image with its checksums. 0; -ECANCELED when *stop became true; -EBADMSG with a sentence: the file was
 * removed, and what was computed with it is worth nothing. */
int packed_verify(const struct packed *p, const atomic_bool *stop);

/* See that huge pages map the image, which packed_verify has touched: where the page cache has none, copy it to memory
 * of our own, while it is in use. 0: nothing had to be done, or can be; 1: copied; -ECANCELED, -ENOMEM, … with a
 * sentence. */
int packed_make_huge(struct packed *p, const atomic_bool *stop);

/* Write @image [t->size] as that file, unless there is one already, or somebody else is at it. 0: it is there (or will
 * be); -ENOSPC also when it would take more than half of what the disk has left; -ECANCELED; -errno; with a sentence.
 */
int packed_write(const struct packed_table *t, const struct fingerprint *model, const char *dir, const void *image,
                 const atomic_bool *stop);

/* Whether there is a file for @model in @dir, good or not. */
bool packed_there(const struct fingerprint *model, const char *dir);

/* Remove from @dir what a crash has left, records and packed weights of models that are gone or were changed, and those
 * of older layouts. */
void packed_sweep(const char *dir);

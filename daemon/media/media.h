/* SPDX-License-Identifier: MIT */
#pragma once
/* Images and sounds as the encoders of a model take them, and the limits of the files that they come from. */
#include <stddef.h>
#include <stdint.h>

#define MEDIA_FILE_MAX    (512u << 20)                                     /* bytes of a file */
#define MEDIA_PIXELS_MAX  64000000u                                        /* of an image */
#define MEDIA_RATE        16000u                                           /* samples in a second */
#define MEDIA_SECONDS_MAX 1800u                                            /* of a sound */
#define MEDIA_SAMPLES_MAX ((uint64_t)MEDIA_RATE * (MEDIA_SECONDS_MAX + 1)) /* the resampler may round up */

enum { MEDIA_DIGEST = 16 /* bytes */ };

enum media_kind { MEDIA_NONE, MEDIA_IMAGE, MEDIA_SOUND };

enum media_format {
    MEDIA_UNKNOWN,
    MEDIA_PNG,
    MEDIA_JPEG,
    MEDIA_WEBP,
    MEDIA_WAV,
    MEDIA_FLAC,
    MEDIA_OGG,
    MEDIA_MP3,
    MEDIA_FORMATS
};

struct media {
    enum media_kind kind;
    enum media_format format;
    uint32_t width, height; /* of an image, as it is to be seen */
    uint64_t samples;       /* of a sound */
    void *data; /* owned. An image: uint8_t [height][width][3], R, G, B. A sound: float [samples], mono, MEDIA_RATE */
    uint8_t digest[MEDIA_DIGEST];
};

/* The format that the first bytes of a file show; MEDIA_UNKNOWN: none of these. */
enum media_format media_sniff(const uint8_t *data, size_t n);

enum media_kind media_kind_of(enum media_format format);
/* "PNG"; "image"; never NULL. */
const char *media_format_name(enum media_format format);
const char *media_kind_name(enum media_kind kind);

/* Prepend "image: PNG: " to the error message of @r; nothing for MEDIA_UNKNOWN. Returns @r. */
int media_error_in(int r, enum media_format format);

/* Bytes of m->data. */
size_t media_bytes(const struct media *m);

/* Set m->digest: XXH3-128 over the kind, the size and m->data. The format is not part of it, so that equal pixels of
 * two files have one digest. */
void media_digest(struct media *m);

void media_fini(struct media *m);

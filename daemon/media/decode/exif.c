/* SPDX-License-Identifier: MIT */
/* EXIF is a TIFF file: a header, then directories of entries of 12 bytes. The orientation is in the first directory. */
#include "daemon/media/decode/exif.h"
#include <stdbool.h>
#include <string.h>

enum { HEADER = 8, ENTRY = 12, TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3 };

struct tiff {
    const uint8_t *data;
    size_t n;
    bool big; /* byte order */
};

/* The caller has checked that the bytes exist. */
static uint32_t get16(const struct tiff *t, size_t at)
{
    const uint8_t *p = t->data + at;
    return t->big ? (uint32_t)p[0] << 8 | p[1] : (uint32_t)p[1] << 8 | p[0];
}

static uint32_t get32(const struct tiff *t, size_t at)
{
    uint32_t a = get16(t, at), b = get16(t, at + 2);
    return t->big ? a << 16 | b : b << 16 | a;
}

unsigned exif_orientation(const uint8_t *data, size_t n)
{
    if (data && n >= 6 && memcmp(data, "Exif\0\0", 6) == 0) {
        data += 6;
        n -= 6;
    }
    if (!data || n < HEADER || (memcmp(data, "MM\0*", 4) != 0 && memcmp(data, "II*\0", 4) != 0)) return 1;
    struct tiff t = {data, n, data[0] == 'M'};
    size_t at = get32(&t, 4);
    if (at > n || n - at < 2) return 1;
    size_t entries = get16(&t, at);
    at += 2;
    for (; entries > 0 && n - at >= ENTRY; entries--, at += ENTRY) {
        if (get16(&t, at) != TAG_ORIENTATION) continue;
        uint32_t value = get16(&t, at + 8);
        bool one_short = get16(&t, at + 2) == TYPE_SHORT && get32(&t, at + 4) == 1;
        return one_short && value >= 1 && value <= 8 ? value : 1;
    }
    return 1;
}

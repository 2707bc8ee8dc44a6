/* SPDX-License-Identifier: MIT */
#include "daemon/media/media.h"
#include "libcommon/error.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

static const struct {
    const char *name;
    enum media_kind kind;
} formats[MEDIA_FORMATS] = {
    [MEDIA_UNKNOWN] = {"unknown", MEDIA_NONE}, [MEDIA_PNG] = {"PNG", MEDIA_IMAGE}, [MEDIA_JPEG] = {"JPEG", MEDIA_IMAGE},
    [MEDIA_WEBP] = {"WebP", MEDIA_IMAGE},      [MEDIA_WAV] = {"WAV", MEDIA_SOUND}, [MEDIA_FLAC] = {"FLAC", MEDIA_SOUND},
    [MEDIA_OGG] = {"Ogg", MEDIA_SOUND},        [MEDIA_MP3] = {"MP3", MEDIA_SOUND},
};

static bool begins(const uint8_t *data, size_t n, const char *with, size_t len)
{
    return n >= len && memcmp(data, with, len) == 0;
}

/* A header of an MPEG audio frame: the sync, layer III, a bit rate and a sampling rate that exist. */
static bool is_mpeg_frame(const uint8_t *data, size_t n)
{
    return n >= 4 && data[0] == 0xff && (data[1] & 0xe0) == 0xe0 && (data[1] & 0x18) != 0x08 &&
           (data[1] & 0x06) == 0x02 && (data[2] & 0xf0) != 0xf0 && (data[2] & 0x0c) != 0x0c;
}

enum media_format media_sniff(const uint8_t *data, size_t n)
{
    bool riff = begins(data, n, "RIFF", 4) || begins(data, n, "RF64", 4);
    if (begins(data, n, "\x89PNG\r\n\x1a\n", 8)) return MEDIA_PNG;
    if (begins(data, n, "\xff\xd8\xff", 3)) return MEDIA_JPEG;
    if (riff && n >= 12 && memcmp(data + 8, "WEBP", 4) == 0) return MEDIA_WEBP;
    if (riff && n >= 12 && memcmp(data + 8, "WAVE", 4) == 0) return MEDIA_WAV;
    if (begins(data, n, "fLaC", 4)) return MEDIA_FLAC;
    if (begins(data, n, "OggS", 4)) return MEDIA_OGG;
    if (begins(data, n, "ID3", 3) || is_mpeg_frame(data, n)) return MEDIA_MP3;
    return MEDIA_UNKNOWN;
}

enum media_kind media_kind_of(enum media_format format)
{
    return formats[format].kind;
}

const char *media_format_name(enum media_format format)
{
    return formats[format].name;
}

const char *media_kind_name(enum media_kind kind)
{
    return kind == MEDIA_IMAGE ? "image" : kind == MEDIA_SOUND ? "sound" : "none";
}

int media_error_in(int r, enum media_format format)
{
    if (format == MEDIA_UNKNOWN) return r;
    return error_in(r, "%s: %s", media_kind_name(media_kind_of(format)), media_format_name(format));
}

size_t media_bytes(const struct media *m)
{
    return m->kind == MEDIA_IMAGE ? (size_t)m->width * m->height * 3 : (size_t)m->samples * sizeof(float);
}

static void put64(uint8_t *to, uint64_t v)
{
    for (int i = 0; i < 8; i++) to[i] = (uint8_t)(v >> 8 * i);
}

void media_digest(struct media *m)
{
    bool image = m->kind == MEDIA_IMAGE;
    uint8_t head[24];
    XXH3_state_t state;
    put64(head, m->kind);
    put64(head + 8, image ? m->width : m->samples);
    put64(head + 16, image ? m->height : 0);
    XXH3_INITSTATE(&state);
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, head, sizeof(head));
    XXH3_128bits_update(&state, m->data, media_bytes(m));
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(&state));
    memcpy(m->digest, digest.digest, MEDIA_DIGEST);
}

void media_fini(struct media *m)
{
    free(m->data);
    *m = (struct media){0};
}

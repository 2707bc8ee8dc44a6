/* SPDX-License-Identifier: MIT */
#include "daemon/command/media-save.h"
#include "libcommon/error.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { WAV_HEADER = 44, WAV_FLOAT = 3 };

static bool ends(const char *path, const char *with)
{
    size_t n = strlen(path), len = strlen(with);
    return n > len && strcmp(path + n - len, with) == 0;
}

int media_save_check(const char *path)
{
    if (ends(path, ".ppm") || ends(path, ".wav")) return 0;
    return error_say(-EINVAL, "-o %s: the name must end in .ppm (images) or .wav (sounds)", path);
}

static void put32(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> 8 * i);
}

static size_t wav_header(const struct media *m, uint8_t *to)
{
    uint32_t bytes = (uint32_t)media_bytes(m); /* the limit of samples leaves room */
    memcpy(to, "RIFF....WAVEfmt ....", 20);
    put32(to + 4, WAV_HEADER - 8 + bytes);
    put32(to + 16, 16);
    put32(to + 20, WAV_FLOAT | 1 << 16 /* channel */);
    put32(to + 24, MEDIA_RATE);
    put32(to + 28, MEDIA_RATE * sizeof(float));
    put32(to + 32, sizeof(float) | 8 * sizeof(float) << 16);
    memcpy(to + 36, "data", 4);
    put32(to + 40, bytes);
    return WAV_HEADER;
}

int media_save(const struct media *m, const char *path)
{
    bool image = m->kind == MEDIA_IMAGE;
    uint8_t head[64];
    if (ends(path, ".ppm") != image)
        return error_say(-EINVAL, "-o %s: this file is %s", path, image ? "an image (.ppm)" : "a sound (.wav)");
    size_t n = image ? (size_t)snprintf((char *)head, sizeof(head), "P6\n%u %u\n255\n", m->width, m->height)
                     : wav_header(m, head);
    FILE *f = fopen(path, "we");
    if (!f) return error_say(-errno, "%s: %s", path, strerror(errno));
    bool written = fwrite(head, 1, n, f) == n && fwrite(m->data, 1, media_bytes(m), f) == media_bytes(m);
    int error = written ? 0 : errno;
    if (fclose(f) != 0 && !error) error = errno;
    return error ? error_say(-error, "%s: %s", path, strerror(error)) : 0;
}

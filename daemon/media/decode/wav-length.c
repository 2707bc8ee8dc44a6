/* SPDX-License-Identifier: MIT */
#include "daemon/media/decode/wav-length.h"
#include "daemon/media/media.h"
#include "libcommon/error.h"
#include <inttypes.h>
#include <string.h>

enum { HEADER = 12, CHUNK = 8, FMT = 16 };
#define OPEN_ENDED 0x7ffff000u /* from this size on, a length is not known */

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

int wav_too_long(uint64_t seconds)
{
    return error_say(-EFBIG, "%" PRIu64 ":%02u:%02u hours are over the limit of %u min", seconds / 3600,
                     (unsigned)(seconds / 60 % 60), (unsigned)(seconds % 60), MEDIA_SECONDS_MAX / 60);
}

/* The data chunk, whose header says @size bytes; @left follow. @rate: bytes in a second; 0: not known. */
static int check(uint32_t size, size_t left, uint32_t rate)
{
    if (size >= OPEN_ENDED) return 0;
    if (rate && size / rate > MEDIA_SECONDS_MAX) return wav_too_long(size / rate);
    if (size > left) return error_say(-EBADMSG, "truncated: %zu of %" PRIu32 " bytes of sound", left, size);
    return 0;
}

int wav_length(const uint8_t *data, size_t n)
{
    uint32_t rate = 0;
    if (memcmp(data, "RIFF", 4) != 0) return 0; /* RF64 */
    for (size_t at = HEADER; n - at >= CHUNK;) {
        const uint8_t *p = data + at;
        uint32_t size = get32(p + 4);
        size_t left = n - at - CHUNK;
        if (memcmp(p, "data", 4) == 0) return check(size, left, rate);
        if (memcmp(p, "fmt ", 4) == 0 && size >= FMT && left >= FMT) rate = get32(p + CHUNK + 8);
        size_t padded = (size_t)size + (size & 1);
        if (padded > left) break;
        at += CHUNK + padded;
    }
    return error_say(-EBADMSG, "truncated: it has no data chunk");
}

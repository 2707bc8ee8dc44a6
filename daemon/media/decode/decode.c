/* SPDX-License-Identifier: MIT */
#include "daemon/media/decode/decode.h"
#include "libcommon/error.h"

static int decode_format(const uint8_t *data, size_t n, struct media *m)
{
    switch (m->format) {
    case MEDIA_PNG:
        return decode_png(data, n, m);
    case MEDIA_JPEG:
        return decode_jpeg(data, n, m);
    case MEDIA_WEBP:
        return decode_webp(data, n, m);
    default:
        return decode_sound(data, n, m);
    }
}

int decode(const uint8_t *data, size_t n, struct media *m)
{
    m->format = media_sniff(data, n);
    if (n == 0) return error_say(-EBADMSG, "the file is empty");
    if (m->format == MEDIA_UNKNOWN)
        return error_say(-EBADMSG, "neither an image (PNG, JPEG, WebP) nor a sound (WAV, FLAC, Ogg, MP3)");
    int r = decode_format(data, n, m);
    return r < 0 ? media_error_in(r, m->format) : 0;
}

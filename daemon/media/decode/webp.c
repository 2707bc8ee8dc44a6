/* SPDX-License-Identifier: MIT */
#include "daemon/media/decode/canvas.h"
#include "daemon/media/decode/decode.h"
#include "daemon/media/decode/exif.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <webp/decode.h>
#include <webp/demux.h>

static void demux_freep(WebPDemuxer **x)
{
    WebPDemuxDelete(*x);
}

static unsigned orientation(const WebPDemuxer *x)
{
    WebPChunkIterator it;
    if (!WebPDemuxGetChunk(x, "EXIF", 1, &it)) return 1;
    unsigned o = exif_orientation(it.chunk.bytes, it.chunk.size);
    WebPDemuxReleaseChunkIterator(&it);
    return o;
}

/* The frame of @it at its place on the canvas. */
static int frame(struct canvas *c, const WebPIterator *it)
{
    uint32_t w = (uint32_t)it->width, h = (uint32_t)it->height, x = (uint32_t)it->x_offset, y = (uint32_t)it->y_offset;
    if (w > c->width || h > c->height || x > c->width - w || y > c->height - h)
        return error_say(-EBADMSG, "the first frame is larger than the image");
    size_t row = (size_t)w * 4;
    _cleanup_(freep) uint8_t *rgba = malloc(row * h);
    if (!rgba) return error_say(-ENOMEM, "no memory to decode it");
    if (!WebPDecodeRGBAInto(it->fragment.bytes, it->fragment.size, rgba, row * h, (int)row))
        return error_say(-EBADMSG, "the pixels are damaged");
    if (w < c->width || h < c->height) canvas_white(c);
    for (uint32_t i = 0; i < h; i++) canvas_rgba(c, x, y + i, rgba + i * row, w);
    return 0;
}

int decode_webp(const uint8_t *data, size_t n, struct media *m)
{
    uint32_t size = (uint32_t)data[4] | (uint32_t)data[5] << 8 | (uint32_t)data[6] << 16 | (uint32_t)data[7] << 24;
    if (n - 8 < size) return error_say(-EBADMSG, "truncated: %zu of %llu bytes", n, (unsigned long long)size + 8);
    _cleanup_(demux_freep) WebPDemuxer *x = WebPDemux(&(WebPData){data, n});
    if (!x) return error_say(-EBADMSG, "the file is damaged");
    struct canvas c;
    int r = canvas_new(&c, WebPDemuxGetI(x, WEBP_FF_CANVAS_WIDTH), WebPDemuxGetI(x, WEBP_FF_CANVAS_HEIGHT),
                       orientation(x), m);
    if (r < 0) return r;
    WebPIterator it;
    if (!WebPDemuxGetFrame(x, 1, &it)) return error_say(-EBADMSG, "the file has no image");
    r = frame(&c, &it);
    WebPDemuxReleaseIterator(&it);
    return r;
}

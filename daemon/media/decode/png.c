/* SPDX-License-Identifier: MIT */
#include "daemon/media/decode/canvas.h"
#include "daemon/media/decode/decode.h"
#include "daemon/media/decode/exif.h"
#include "daemon/media/decode/png-chunks.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <spng.h>
#include <stdlib.h>

static void spng_freep(spng_ctx **ctx)
{
    spng_ctx_free(*ctx);
}

static int feed(spng_ctx *ctx, void *user, void *to, size_t n)
{
    return png_chunks_read(user, to, n) ? 0 : SPNG_IO_EOF;
}

static int refuse(int code)
{
    if (code == SPNG_EMEM) return error_say(-ENOMEM, "no memory to decode it");
    if (code == SPNG_IO_EOF || code == SPNG_EIDAT_TOO_SHORT) return error_say(-EBADMSG, "IDAT has too few pixels");
    return error_say(-EBADMSG, "%s", spng_strerror(code));
}

/* The rows of Adam7's seven passes fill one image. */
static int interlaced(spng_ctx *ctx, struct canvas *c)
{
    size_t row = (size_t)c->width * 4;
    _cleanup_(freep) uint8_t *rgba = malloc(row * c->height);
    if (!rgba) return error_say(-ENOMEM, "no memory for an interlaced image");
    int code = spng_decode_image(ctx, rgba, row * c->height, SPNG_FMT_RGBA8, SPNG_DECODE_TRNS);
    if (code) return refuse(code);
    for (uint32_t y = 0; y < c->height; y++) canvas_rgba(c, 0, y, rgba + y * row, c->width);
    return 0;
}

static int by_rows(spng_ctx *ctx, struct canvas *c)
{
    size_t n = (size_t)c->width * 4;
    _cleanup_(freep) uint8_t *row = malloc(n);
    if (!row) return error_say(-ENOMEM, "no memory for a row");
    int code = spng_decode_image(ctx, NULL, 0, SPNG_FMT_RGBA8, SPNG_DECODE_TRNS | SPNG_DECODE_PROGRESSIVE);
    for (uint32_t y = 0; !code && y < c->height; y++) {
        code = spng_decode_row(ctx, row, n);
        if (code == SPNG_EOI && y + 1 == c->height) code = 0;
        if (!code) canvas_rgba(c, 0, y, row, c->width);
    }
    return code ? refuse(code) : 0;
}

int decode_png(const uint8_t *data, size_t n, struct media *m)
{
    struct png_chunks chunks;
    struct canvas c;
    int r = png_chunks_init(&chunks, data, n);
    if (r < 0) return r;
    r = canvas_new(&c, chunks.width, chunks.height, exif_orientation(chunks.exif, chunks.n_exif), m);
    if (r < 0) return r;
    _cleanup_(spng_freep) spng_ctx *ctx = spng_ctx_new(0);
    if (!ctx) return refuse(SPNG_EMEM);
    int code = spng_set_png_stream(ctx, feed, &chunks);
    if (code) return refuse(code);
    return chunks.interlaced ? interlaced(ctx, &c) : by_rows(ctx, &c);
}
